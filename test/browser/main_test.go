package browser

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	certplaneFlag   = flag.String("certplane", "../../bin/certplane", "The program that is tested.")
	axeFlag         = flag.String("axe", "", "The file axe.min.js of axe-core. If there is none, accessibility is not tested.")
	screenshotsFlag = flag.String("screenshots", "", "The folder into which TestScreenshots writes. Without it, nothing is written.")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if chromium() == "" {
		fmt.Println("browser: there is no Chromium, so the console was not tested in it; Debian's package is chromium")
		os.Exit(0)
	}
	for _, file := range []*string{certplaneFlag, axeFlag, screenshotsFlag} {
		if *file == "" {
			continue
		}
		absolute, err := filepath.Abs(*file)
		if err != nil {
			fmt.Println("browser:", err)
			os.Exit(1)
		}
		*file = absolute
	}
	os.Exit(m.Run())
}

// chromium returns the program; empty if there is none.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// TestConsole does what people do with the console. All use one server.
func TestConsole(t *testing.T) {
	w := newWorld(t)
	b := newBrowser(t, w)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *world, *browser)
	}{
		{"Login", testLogin},
		{"OpenIDConnect", testOpenIDConnect},
		{"LoginLink", testLoginLink},
		{"Keyboard", testKeyboard},
		{"Refused", testRefused},
		{"Many", testMany},
		{"Phone", testPhone},
		{"Live", testLive},
		{"WithoutRights", testWithoutRights},
		{"WithoutScripts", testWithoutScripts},
		{"HostileText", testHostileText},
		{"Pages", testPages},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, w, b) })
	}
}
