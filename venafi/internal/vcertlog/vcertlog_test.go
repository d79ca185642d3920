package vcertlog

import (
	"bytes"
	"flag"
	"log"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// The lines of the library are for a higher verbosity, those of others are not.
func TestWriter(t *testing.T) {
	var own, verbose bytes.Buffer
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	klog.LogToStderr(false)
	klog.SetOutput(&verbose)
	for verbosity, want := range map[string]bool{"0": false, "1": true} {
		if err := flags.Set("v", verbosity); err != nil {
			t.Fatal(err)
		}
		verbose.Reset()
		log.New(writer{&own, "github.com/certplane/certplane/venafi/internal/vcertlog.TestWriter"}, "", 0).Print("a step")
		klog.Flush()
		if got := strings.Contains(verbose.String(), "a step"); got != want || own.Len() > 0 {
			t.Errorf("verbosity %s: %q, and %q", verbosity, verbose.String(), own.String())
		}
	}
	log.New(writer{&own, "github.com/Venafi/vcert/"}, "", 0).Print("a step")
	if own.String() != "a step\n" {
		t.Errorf("a line of others: %q", own.String())
	}
}
