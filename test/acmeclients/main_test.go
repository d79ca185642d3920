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

// notTested is printed where the kernel, or the container, permits no namespaces.
const notTested = "acme: real clients were not tested, since they need a host of their own:"

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(insideEnv) == "" {
		code, err := runOnOwnHost()
		if err != nil {
			fmt.Println(notTested, err)
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
	if err := setUpHost(os.Getenv(insideEnv)); err != nil {
		fmt.Println(notTested, err)
		return 0, nil
	}
	return m.Run(), nil
}
