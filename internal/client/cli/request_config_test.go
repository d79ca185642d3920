package cli

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestRequestDefaults(t *testing.T) {
	tests := []struct {
		reason     string
		args       []string
		out        string
		wantOutput string
	}{
		{"files go to the current folder", nil, ".", ""},
		{"a server dry run prints nothing but the request", []string{"--dry-run", "server"}, "", "yaml"},
		{"a client dry run keeps its key only where it is told to", []string{"--dry-run", "client", "--out", "d"}, "d", "yaml"},
		{"the output is one's own choice", []string{"--dry-run", "client", "-o", "json"}, "", "json"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			given := pflag.NewFlagSet("request", pflag.ContinueOnError)
			f := defaultRequestFlags()
			f.addTo(given)
			if err := given.Parse(append([]string{"--signer", "example.com/s", "--cn", "a"}, tt.args...)); err != nil {
				t.Fatal(err)
			}
			cfg, err := f.config(given)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Out != tt.out || cfg.Output != tt.wantOutput {
				t.Errorf("out %q, output %q, want %q and %q", cfg.Out, cfg.Output, tt.out, tt.wantOutput)
			}
		})
	}
}
