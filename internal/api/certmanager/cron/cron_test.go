package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/api/certmanager/cron"
)

func TestFirst(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason, text, from string
		location           *time.Location
		want               string // empty: none within a year
	}{
		{"every minute", "* * * * *", "2026-03-01T12:00:30Z", time.UTC, "2026-03-01T12:01:00Z"},
		{"a beginning counts itself", "0 3 * * *", "2026-03-01T03:00:00Z", time.UTC, "2026-03-01T03:00:00Z"},
		{"tomorrow", "0 3 * * *", "2026-03-01T03:00:01Z", time.UTC, "2026-03-02T03:00:00Z"},
		{"steps", "*/20 8-18/5 * * *", "2026-03-01T13:41:00Z", time.UTC, "2026-03-01T18:00:00Z"},
		{"steps from a number", "50/5 * * * *", "2026-03-01T13:51:00Z", time.UTC, "2026-03-01T13:55:00Z"},
		{"a list", "5,35 * * * *", "2026-03-01T13:06:00Z", time.UTC, "2026-03-01T13:35:00Z"},
		{"Saturdays by name", "0 2 * * SAT", "2026-03-01T00:00:00Z", time.UTC, "2026-03-07T02:00:00Z"},
		{"Sunday is 7, too", "0 2 * * 7", "2026-03-02T00:00:00Z", time.UTC, "2026-03-08T02:00:00Z"},
		{"weekdays", "0 2 * * Mon-fri", "2026-03-07T00:00:00Z", time.UTC, "2026-03-09T02:00:00Z"},
		{"a month by name", "0 0 1 feb *", "2026-03-01T00:00:00Z", time.UTC, "2027-02-01T00:00:00Z"},
		{"either day", "0 0 13 * 5", "2026-03-01T00:00:00Z", time.UTC, "2026-03-06T00:00:00Z"},
		{"both days, if one has a star", "0 0 */2 * 1", "2026-03-01T00:00:00Z", time.UTC, "2026-03-09T00:00:00Z"},
		{"a day that does not come", "0 0 30 2 *", "2026-03-01T00:00:00Z", time.UTC, ""},
		{"local time", "0 3 * * *", "2026-01-01T00:00:00Z", berlin, "2026-01-01T02:00:00Z"},
		{"local time in summer", "0 3 * * *", "2026-07-01T02:00:00Z", berlin, "2026-07-02T01:00:00Z"},
		{"local time on the day of the change", "30 3 * * *", "2026-03-29T00:00:00Z", berlin, "2026-03-29T01:30:00Z"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			s, err := cron.Parse(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			from, err := time.Parse(time.RFC3339, tc.from)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := s.First(from.In(tc.location), from.AddDate(1, 0, 0))
			if ok != (tc.want != "") || ok && got.UTC().Format(time.RFC3339) != tc.want {
				t.Errorf("got %v, %v, want %q", got, ok, tc.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "0 fields",
		"@daily":                "1 fields",
		"* * * *":               "4 fields",
		"* * * * * *":           "6 fields",
		"TZ=UTC * * * *":        "minute",
		"60 * * * *":            `minute: "60": must be between 0 and 59`,
		"* 24 * * *":            "hour",
		"* * 0 * *":             "day of the month",
		"* * * 13 *":            "month",
		"* * * * 8":             "day of the week",
		"* * * * mo":            "day of the week",
		"-1 * * * *":            "minute",
		"5-1 * * * *":           "ends before it begins",
		"*/0 * * * *":           "step",
		"*/x * * * *":           "step",
		"1,,2 * * * *":          "minute",
		"99999999999 * * * *":   "minute",
		"*/99999999999 * * * *": "step",
	} {
		if _, err := cron.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
}

// FuzzParse checks that searching in a parsed schedule always ends.
func FuzzParse(f *testing.F) {
	f.Add("*/5 1-3 1,2 jan mon")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := cron.Parse(text)
		if err != nil {
			return
		}
		from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		if begin, ok := s.First(from, from.AddDate(1, 0, 0)); ok && begin.Before(from) {
			t.Errorf("%q begins at %v, before %v", text, begin, from)
		}
	})
}
