// Command certplane is the Kubernetes certificate control plane as one
// program.
package main

import (
	_ "time/tzdata" // windows for renewal have time zones, and images often lack their data

	"github.com/certplane/certplane/internal/run/program"
)

func main() { program.Main() }
