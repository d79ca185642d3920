package duration

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		text    string
		want    time.Duration
		refused string // part of the error
	}{
		{text: "30d", want: 720 * time.Hour},
		{text: "1d12h", want: 36 * time.Hour},
		{text: "0d", want: 0},
		{text: "-1d1h", want: -25 * time.Hour},
		{text: "90m", want: 90 * time.Minute},
		{text: "8760h0m0s", want: 8760 * time.Hour},
		{text: "1.5h", want: 90 * time.Minute},
		{text: "106751d", want: 106751 * 24 * time.Hour},
		{text: "0", want: 0},
		{text: "", refused: `"" is not a duration: want a number with a unit`},
		{text: "86400", refused: "86400 has no unit: want a number with a unit (d, h"},
		{text: "1.5", refused: "1.5 has no unit"},
		{text: "d", refused: `"d" is not a duration`},
		{text: "1d-1h", refused: "is not a duration"},
		{text: "--1d", refused: "is not a duration"},
		{text: "12h1d", refused: "is not a duration"},
		{text: "1.5d", refused: "is not a duration"},
		{text: "1d1d", refused: "is not a duration"},
		{text: "30 d", refused: "is not a duration"},
		{text: "30days", refused: "is not a duration"},
		{text: "2w", refused: "is not a duration"},
		{text: "106752d", refused: "too long"},
		{text: "4294967295d", refused: "too long"},
		{text: "99999999999999999999d", refused: "is not a duration"},
		{text: "106750d2562047h", refused: "is not a duration"}, // wraps around
	} {
		t.Run(tc.text, func(t *testing.T) {
			got, err := Parse(tc.text)
			switch {
			case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
				t.Errorf("got %v, %v; want an error with %q", got, err, tc.refused)
			case tc.refused == "" && (err != nil || got != tc.want):
				t.Errorf("got %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func TestFormat(t *testing.T) {
	for length, want := range map[time.Duration]string{
		0:                              "0s",
		time.Second:                    "1s",
		10 * time.Minute:               "10m",
		time.Hour:                      "1h",
		time.Hour + time.Second:        "1h0m1s",
		90 * time.Minute:               "1h30m",
		24 * time.Hour:                 "1d",
		32 * time.Hour:                 "1d8h",
		48 * time.Hour:                 "2d",
		8760 * time.Hour:               "365d",
		20 * time.Minute:               "20m",
		10 * time.Hour:                 "10h",
		1500 * time.Millisecond:        "1.5s",
		-48 * time.Hour:                "-2d",
		-25 * time.Hour:                "-1d1h",
		time.Duration(math.MaxInt64):   "106751d23h47m16.854775807s",
		720*time.Hour + 15*time.Minute: "30d15m",
	} {
		if got := Format(length); got != want {
			t.Errorf("%v is %q, want %q", length, got, want)
		}
		if back, err := Parse(want); err != nil || back != length {
			t.Errorf("%q is %v, %v; want %v", want, back, err, length)
		}
	}
}

func TestReadable(t *testing.T) {
	for text, want := range map[string]string{"2160h0m0s": "90d", "2160h": "90d", "24h0m0s": "1d", "36h": "1d12h", "12h0m0s": "12h", "10m": "10m", "h": "h", "web": "web", "Each hour": "Each hour", "": ""} {
		if got := Readable(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestVar(t *testing.T) {
	var ttl, wait time.Duration
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Var(flags, &ttl, "ttl", 24*time.Hour, "How long.")
	Var(flags, &wait, "wait", 0, "How long.")
	if usage := flags.FlagUsages(); !strings.Contains(usage, "--ttl duration    How long. (default 1d)") || strings.Contains(usage, "default 0") {
		t.Errorf("usage is %s", usage)
	}
	if err := flags.Parse([]string{"--ttl=30d", "--wait=0"}); err != nil || ttl != 720*time.Hour || wait != 0 {
		t.Errorf("ttl is %v, wait %v, %v", ttl, wait, err)
	}
	err := flags.Parse([]string{"--ttl=30"})
	if err == nil || err.Error() != `invalid argument "30" for "--ttl" flag: want `+Want {
		t.Errorf("a flag without a unit: %v", err)
	}
}
