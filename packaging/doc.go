// Package packaging has what is needed to install and watch Redoubt: a container file, a systemd
// unit, a Debian package, manifests for Kubernetes and compose, a dashboard and alert rules. Its
// tests promise that each file can be read, and that every directive and metric it names exists.
package packaging
