package certmanager

import (
	"errors"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/certmanager/cron"
)

// Window is a recurring time in which certificates may be renewed.
type Window struct {
	schedule cron.Schedule
	zone     *time.Location
	lasts    time.Duration
}

// ParseWindow parses a window; it returns an error for one that never opens.
func ParseWindow(w cmv1.CertificateRenewalWindows) (Window, error) {
	parsed, errs := parseWindow(w, nil)
	return parsed, errs.ToAggregate()
}

func parseWindow(w cmv1.CertificateRenewalWindows, path *field.Path) (parsed Window, errs field.ErrorList) {
	var err error
	if parsed.schedule, err = cron.Parse(w.Cron); err != nil {
		errs = append(errs, field.Invalid(path.Child("cron"), w.Cron, err.Error()))
	} else if err := checkOccurs(parsed.schedule); err != nil {
		errs = append(errs, field.Invalid(path.Child("cron"), w.Cron, err.Error()))
	}
	if parsed.zone, err = zone(w.Timezone); err != nil {
		errs = append(errs, field.Invalid(path.Child("timezone"), w.Timezone, err.Error()))
	}
	if w.WindowDuration == nil {
		return parsed, append(errs, field.Required(path.Child("windowDuration"), "must be how long the window is open, such as 4h"))
	}
	if parsed.lasts = w.WindowDuration.Duration; parsed.lasts <= 0 {
		errs = append(errs, field.Invalid(path.Child("windowDuration"), parsed.lasts.String(), "must be more than 0s"))
	}
	return parsed, errs
}

// checkOccurs returns an error for a schedule such as 30 February. Any eight
// years contain a leap day.
func checkOccurs(s cron.Schedule) error {
	from := time.Date(2097, 1, 1, 0, 0, 0, 0, time.UTC) // 2100 is not a leap year
	if _, ok := s.First(from, from.AddDate(8, 0, 0)); !ok {
		return errors.New("never occurs")
	}
	return nil
}

func zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if zone, err := time.LoadLocation(name); err == nil && name != "Local" {
		return zone, nil
	}
	return nil, errors.New("must be the name of a time zone, such as Europe/Berlin")
}

// Next returns when the window is next open: at from if it is open then,
// otherwise when it opens. The result is not after until; ok is false if the
// window does not open before that.
func (w Window) Next(from, until time.Time) (at time.Time, ok bool) {
	// A window that began less than its length before from is still open.
	begin, ok := w.schedule.First(from.Add(time.Nanosecond-w.lasts).In(w.zone), until)
	if ok && begin.Before(from) {
		return from, true
	}
	return begin, ok
}
