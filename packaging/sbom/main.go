// Command sbom lists the modules that a Go program was built of, as the go command has noted them
// in it, in the form of CycloneDX: what a scanner for vulnerabilities wants.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
)

// component is a module, or the program itself.
type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

// document is a list of modules.
type document struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Version  int    `json:"version"`
	Metadata struct {
		Component component `json:"component"`
	} `json:"metadata"`
	Components []component `json:"components"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM")
		os.Exit(2)
	}
	info, err := buildinfo.ReadFile(os.Args[1])
	if err == nil {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", " ")
		err = out.Encode(list(info))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// list makes the document of a program.
func list(info *debug.BuildInfo) (d document) {
	d.Format, d.Spec, d.Version = "CycloneDX", "1.5", 1
	of := func(kind, name, version string) component {
		return component{Type: kind, Name: name, Version: version, PURL: "pkg:golang/" + name + "@" + version}
	}
	d.Metadata.Component = of("application", info.Main.Path, info.Main.Version)
	d.Components = []component{of("library", "stdlib", info.GoVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.Components = append(d.Components, of("library", m.Path, m.Version))
	}
	return d
}
