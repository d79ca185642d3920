package acmeclients

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var (
	certplaneFlag = flag.String("certplane", "../../bin/certplane", "The program that is tested.")
	peersFlag     = flag.String("peers", "../../bin/peers", "The folder with cert-manager-controller and the packages of npm.")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(insideEnv) == "" {
		code, err := runOnOwnHost()
		if err != nil {
			fmt.Println("acme: real clients were not tested, since they need a network of their own:", err)
		}
		os.Exit(code)
	}
	code, err := runInside(m)
	if err != nil {
		fmt.Println("acme:", err)
		code = 1
	}
	os.Exit(code)
}

// runInside runs the tests on a host of their own.
func runInside(m *testing.M) (int, error) {
	for _, program := range []*string{certplaneFlag, peersFlag} {
		var err error
		if *program, err = filepath.Abs(*program); err != nil {
			return 0, err
		}
	}
	scratch, err := os.MkdirTemp("", "certplane-acme-clients-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(scratch)
	if err := setUpHost(scratch); err != nil {
		return 0, err
	}
	return m.Run(), nil
}
