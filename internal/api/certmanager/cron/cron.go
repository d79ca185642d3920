// Package cron parses the schedules of crontabs: five fields that define the
// minutes at which something starts.
package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Schedule is the set of minutes that match five fields: minute, hour, day of
// the month, month, day of the week. Use Parse to create one.
type Schedule struct {
	minutes, hours, days, months, weekdays set
	// eitherDay is true if both day fields are restricted; then one of them is
	// enough, as in crontab(5).
	eitherDay bool
}

// set has a bit for each number that a field allows.
type set uint64

func (s set) has(n int) bool { return s&(1<<n) != 0 }

// field is one of the five fields.
type field struct {
	name     string
	min, max int
	// names are used for numbers from min on.
	names []string
}

var (
	months   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

	minuteField  = field{name: "minute", max: 59}
	hourField    = field{name: "hour", max: 23}
	dayField     = field{name: "day of the month", min: 1, max: 31}
	monthField   = field{name: "month", min: 1, max: 12, names: months}
	weekdayField = field{name: "day of the week", max: 7, names: weekdays} // 0 and 7 are Sunday
)

// Parse parses five fields separated by blanks. A field is "*", numbers, ranges
// such as 1-5, steps such as */15 or 8-18/2, or several of them separated by
// commas; months and days of the week also have names of three letters.
// Shorthands such as "@daily" are refused.
func Parse(text string) (Schedule, error) {
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return Schedule{}, fmt.Errorf("%d fields, want five: minute, hour, day of the month, month, day of the week", len(fields))
	}
	s := Schedule{eitherDay: !strings.HasPrefix(fields[2], "*") && !strings.HasPrefix(fields[4], "*")}
	for i, part := range []struct {
		field field
		into  *set
	}{{minuteField, &s.minutes}, {hourField, &s.hours}, {dayField, &s.days}, {monthField, &s.months}, {weekdayField, &s.weekdays}} {
		var err error
		if *part.into, err = part.field.parse(fields[i]); err != nil {
			return Schedule{}, fmt.Errorf("%s: %w", part.field.name, err)
		}
	}
	if s.weekdays.has(7) {
		s.weekdays |= 1
	}
	return s, nil
}

func (f field) parse(text string) (set, error) {
	var all set
	for item := range strings.SplitSeq(text, ",") {
		numbers, err := f.item(item)
		if err != nil {
			return 0, err
		}
		all |= numbers
	}
	return all, nil
}

func (f field) item(text string) (set, error) {
	span, step := text, 1
	if before, after, found := strings.Cut(text, "/"); found {
		n, err := strconv.Atoi(after)
		if err != nil || n < 1 || n > f.max {
			return 0, fmt.Errorf("step %q: must be a number between 1 and %d", after, f.max)
		}
		span, step = before, n
	}
	first, last, err := f.span(span, span != text)
	if err != nil {
		return 0, err
	}
	var numbers set
	for n := first; n <= last; n += step {
		numbers |= 1 << n
	}
	return numbers, nil
}

// span parses "*", a number or a range. With steps, a number is the start of a
// range.
func (f field) span(text string, steps bool) (first, last int, err error) {
	if text == "*" {
		return f.min, f.max, nil
	}
	from, to, isRange := strings.Cut(text, "-")
	if first, err = f.number(from); err != nil {
		return 0, 0, err
	}
	switch {
	case isRange:
		last, err = f.number(to)
	case steps:
		last = f.max
	default:
		last = first
	}
	if err == nil && last < first {
		err = fmt.Errorf("%q ends before it begins", text)
	}
	return first, last, err
}

func (f field) number(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("%q: must be between %d and %d", text, f.min, f.max)
	}
	return n, nil
}

// First returns the first start that is not before from and not after until; ok is false if
// no such time exists. Days and hours are in from's location. If a change of clocks skips
// the hour of a start, the start moves by the same amount, later or earlier.
func (s Schedule) First(from, until time.Time) (begin time.Time, ok bool) {
	year, month, day := from.Date()
	for ; ; day++ {
		midnight := time.Date(year, month, day, 0, 0, 0, 0, from.Location())
		if midnight.After(until) {
			return time.Time{}, false
		}
		if !s.matches(midnight) {
			continue
		}
		if begin, ok = s.firstOf(midnight, from); ok {
			return begin, !begin.After(until)
		}
	}
}

func (s Schedule) matches(day time.Time) bool {
	ofMonth, ofWeek := s.days.has(day.Day()), s.weekdays.has(int(day.Weekday()))
	if !s.months.has(int(day.Month())) {
		return false
	}
	if s.eitherDay {
		return ofMonth || ofWeek
	}
	return ofMonth && ofWeek
}

// firstOf returns the first start of a day that is not before from.
func (s Schedule) firstOf(midnight, from time.Time) (time.Time, bool) {
	year, month, day := midnight.Date()
	for hour := range 24 {
		for minute := range 60 {
			if !s.hours.has(hour) || !s.minutes.has(minute) {
				continue
			}
			if begin := time.Date(year, month, day, hour, minute, 0, 0, midnight.Location()); !begin.Before(from) {
				return begin, true
			}
		}
	}
	return time.Time{}, false
}
