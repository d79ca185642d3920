// Package duration reads and writes lengths of time as people write them: with
// days.
package duration

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// day is 24 hours, also when clocks are changed.
const day = 24 * time.Hour

// Want describes what Parse accepts, for errors.
const Want = "a number with a unit (d, h, m, s or ms), such as 30d, 12h or 1h30m"

// Parse reads what time.ParseDuration reads, and days in front of it: 30d,
// 1d12h.
func Parse(text string) (time.Duration, error) {
	unsigned, negative := strings.CutPrefix(text, "-")
	days, rest, hasDays := strings.Cut(unsigned, "d")
	if !hasDays {
		length, err := time.ParseDuration(text)
		if err != nil {
			return 0, refusal(text)
		}
		return length, nil
	}
	count, err := strconv.ParseUint(days, 10, 32)
	if err != nil {
		return 0, refusal(text)
	}
	var length time.Duration
	if rest != "" {
		if length, err = time.ParseDuration(rest); err != nil || strings.ContainsAny(rest, "+-") {
			return 0, refusal(text)
		}
	}
	const most = uint64(1<<63-1) / uint64(day)
	if count > most {
		return 0, fmt.Errorf("%q is too long: a duration has at most %d days", text, most)
	}
	if length += time.Duration(count) * day; length < 0 {
		return 0, refusal(text)
	}
	if negative {
		length = -length
	}
	return length, nil
}

func refusal(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return fmt.Errorf("%s has no unit: want %s", text, Want)
	}
	return fmt.Errorf("%q is not a duration: want %s", text, Want)
}

// Format returns the text of a length as Parse reads it: with days, and without units
// whose number is 0. It is the text of a length wherever people read one.
func Format(length time.Duration) string {
	days, rest := length/day, length%day
	switch {
	case days == 0:
		return short(length)
	case rest == 0:
		return strconv.FormatInt(int64(days), 10) + "d"
	}
	return strconv.FormatInt(int64(days), 10) + "d" + short(rest.Abs())
}

// Readable returns a text as Format writes it, if it is a length as Go writes it (90d for
// 2160h0m0s), and any other text unchanged: objects have their lengths as Go writes them.
func Readable(text string) string {
	if !strings.Contains(text, "h") {
		return text
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		return text
	}
	return Format(length)
}

// short returns a length as time.Duration does, without units whose number is 0:
// 23h for 23h0m0s.
func short(length time.Duration) string {
	text := length.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Var adds a flag for a length of time.
func Var(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	flags.Var((*flag)(to), name, usage)
}

// flag is a pflag.Value.
type flag time.Duration

var _ pflag.Value = (*flag)(nil)

// Set implements pflag.Value.
func (f *flag) Set(text string) error {
	if text == "0" {
		*f = 0
		return nil
	}
	length, err := Parse(text)
	if err != nil {
		// The flag's own error quotes the value already.
		return errors.New("want " + Want)
	}
	*f = flag(length)
	return nil
}

// String implements pflag.Value. pflag takes 0 for no default.
func (f *flag) String() string {
	if *f == 0 {
		return "0"
	}
	return Format(time.Duration(*f))
}

// Type implements pflag.Value.
func (*flag) Type() string { return "duration" }
