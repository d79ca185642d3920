package program

import (
	"github.com/spf13/pflag"

	"github.com/certplane/certplane/internal/process/duration"
	"github.com/certplane/certplane/internal/process/logging"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// addLoggingFlags adds the flags for the log of a process.
func addLoggingFlags(flags *pflag.FlagSet, cfg *logging.Config) {
	flags.IntVarP(&cfg.Verbosity, "v", "v", cfg.Verbosity, "Verbosity of the log, from 0 to 10, as in Kubernetes' components.")
	flags.StringVar(&cfg.Format, "logging-format", cfg.Format, "Format of the log: text, or json with one object per line.")
}

// addLeaseFlags adds the flags for the times of a leader election.
func addLeaseFlags(flags *pflag.FlagSet, times *controllermanager.LeaseTimes) {
	duration.Var(flags, &times.LeaseDuration.Duration, "leader-elect-lease-duration", times.LeaseDuration.Duration, "Time that candidates wait after the leader's last renewal.")
	duration.Var(flags, &times.RenewDeadline.Duration, "leader-elect-renew-deadline", times.RenewDeadline.Duration, "Time that a leader tries to renew its lease before it stops working.")
	duration.Var(flags, &times.RetryPeriod.Duration, "leader-elect-retry-period", times.RetryPeriod.Duration, "Time between two attempts to get or to renew the lease.")
}

// onTop returns the configuration in a file, if one is named, with the given
// flags on top, and otherwise the configuration from the flags alone. add adds
// the flags of a configuration to a set.
func onTop[C any](file string, load func(string) (C, error), add func(*pflag.FlagSet, *C), given *pflag.FlagSet, fromFlags C) (C, error) {
	if file == "" {
		return fromFlags, nil
	}
	cfg, err := load(file)
	if err != nil {
		return cfg, err
	}
	target := pflag.NewFlagSet("", pflag.ContinueOnError)
	add(target, &cfg)
	return cfg, override(target, given)
}

// override sets the given flags in target.
func override(target, given *pflag.FlagSet) error {
	var failed error
	given.Visit(func(f *pflag.Flag) {
		if target.Lookup(f.Name) == nil || failed != nil {
			return
		}
		failed = setFlag(target.Lookup(f.Name), f.Value)
	})
	return failed
}

// setFlag copies a value. A list has to be copied as a list, because its text
// form cannot be set.
func setFlag(to *pflag.Flag, value pflag.Value) error {
	if list, ok := value.(pflag.SliceValue); ok {
		return to.Value.(pflag.SliceValue).Replace(list.GetSlice())
	}
	return to.Value.Set(value.String())
}
