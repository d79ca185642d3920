package controllers

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// LeaseName is the name of the lease of the controllers.
const LeaseName = "certplane-controllers"

// lostLease is how controller-runtime says that somebody else may lead.
const lostLease = "leader election lost"

// LeaseTimes are the times of a leader election. Whoever waits looks at the
// lease every retryPeriod to 2.2 times that: after a leader that ended without
// a word, the next one works after leaseDuration and at most 4.4 times
// retryPeriod.
type LeaseTimes struct {
	// leaseDuration is how long the others wait for a leader that says nothing
	// before one of them takes over. Default: 15s; 10s in "certplane serve".
	// Flag: --leader-elect-lease-duration.
	LeaseDuration metav1.Duration `json:"leaseDuration"`
	// renewDeadline is how long a leader tries to renew its lease before it
	// stops to work; less than leaseDuration. Default: 10s; 7s in "certplane
	// serve". Flag: --leader-elect-renew-deadline.
	RenewDeadline metav1.Duration `json:"renewDeadline"`
	// retryPeriod is the time between two attempts to get or to renew the
	// lease; less than five sixths of renewDeadline. Default: 2s; 1s in
	// "certplane serve". Flag: --leader-elect-retry-period.
	RetryPeriod metav1.Duration `json:"retryPeriod"`
}

// Validate reports the first value that cannot work, by its field.
func (t LeaseTimes) Validate() error {
	switch {
	case t.RetryPeriod.Duration <= 0:
		return fmt.Errorf("leaderElection.retryPeriod: %s must be more than 0", t.RetryPeriod.Duration)
	case t.RenewDeadline.Duration*5 <= t.RetryPeriod.Duration*6:
		return fmt.Errorf("leaderElection.renewDeadline: %s must be more than 1.2 times retryPeriod", t.RenewDeadline.Duration)
	case t.LeaseDuration.Duration <= t.RenewDeadline.Duration:
		return fmt.Errorf("leaderElection.leaseDuration: %s must be more than renewDeadline", t.LeaseDuration.Duration)
	case t.LeaseDuration.Duration < time.Second:
		return fmt.Errorf("leaderElection.leaseDuration: %s must be at least 1s", t.LeaseDuration.Duration)
	}
	return nil
}

// Elect has a manager with these options work under a lease. Which one, and who
// asks for it, is the caller's to say.
func (t LeaseTimes) Elect(options *ctrl.Options) {
	options.LeaderElection = true
	// Whoever waits for the lease is up to date when it gets it.
	options.Controller.EnableWarmup = ptr.To(true)
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration = &t.LeaseDuration.Duration
	options.RenewDeadline = &t.RenewDeadline.Duration
	options.RetryPeriod = &t.RetryPeriod.Duration
}

// IsLostLease reports whether a manager has ended because somebody else may
// lead.
func IsLostLease(err error) bool { return err != nil && err.Error() == lostLease }
