// Package testcql gives tests a real node of Apache Cassandra, which runs on the machine's Java
// from the jars that Maven fetches. `make cql-up` starts one that outlives its starter, and
// `make test-cql` runs the tests on one; without a node the tests are skipped, and say so.
package testcql

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// release is the version of Cassandra that tests run.
const release = "5.0.9"

const pom = `<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>redoubt.test</groupId>
  <artifactId>node</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.cassandra</groupId>
      <artifactId>cassandra-all</artifactId>
      <version>` + release + `</version>
    </dependency>
  </dependencies>
</project>
`

// Install returns the directory of the jars, in the user's cache directory. If they are not
// there Maven fetches them, some 70 MB.
func Install(progress io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	lib := filepath.Join(cache, "redoubt", "cassandra-"+release)
	if _, err := os.Stat(filepath.Join(lib, "cassandra-all-"+release+".jar")); err == nil {
		return lib, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", errors.New("Maven is missing: it fetches Cassandra from Maven Central; install it (mvn), and Java 17 (java)")
	}
	if err := os.MkdirAll(filepath.Dir(lib), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(lib), "install-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), []byte(pom), 0o644); err != nil {
		return "", err
	}
	fmt.Fprintf(progress, "fetching Cassandra %s into %s\n", release, lib)
	cmd := exec.Command(mvn, "-q", "-B", "-f", filepath.Join(work, "pom.xml"), "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(work, "lib"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("Maven cannot fetch Cassandra: %w\n%s", err, out)
	}
	if err := os.RemoveAll(lib); err != nil {
		return "", err
	}
	return lib, os.Rename(filepath.Join(work, "lib"), lib)
}
