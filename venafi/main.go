// Command venafi is certplane with issuers that sign by servers of CyberArk
// Certificate Manager, which was called Venafi before.
package main

import (
	_ "time/tzdata" // as in cmd/certplane

	"github.com/certplane/certplane/internal/run/program"
	"github.com/certplane/certplane/venafi/internal/issuing/venafi"
)

func main() { program.Main(venafi.Open) }
