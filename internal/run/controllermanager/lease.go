package controllermanager

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// LeaseName is the name of the lease of the controllers.
const LeaseName = "certplane-controllers"

// lostLease is controller-runtime's error when another process may lead.
const lostLease = "leader election lost"

// LeaseTimes are the times of a leader election. A waiting process looks at the
// lease every retryPeriod to 2.2 times that. If a leader ends without releasing
// the lease, the next one works after leaseDuration and at most 4.4 times
// retryPeriod.
type LeaseTimes struct {
	// leaseDuration is how long candidates wait after the leader's last renewal before one
	// of them takes over. Default: 15s; 10s in "certplane serve". Flag:
	// --leader-elect-lease-duration.
	LeaseDuration metav1.Duration `json:"leaseDuration"`
	// renewDeadline is how long a leader tries to renew its lease before it stops working;
	// less than leaseDuration. Default: 10s; 7s in "certplane serve". Flag:
	// --leader-elect-renew-deadline.
	RenewDeadline metav1.Duration `json:"renewDeadline"`
	// retryPeriod is the time between two attempts to get or to renew the
	// lease; less than five sixths of renewDeadline. Default: 2s; 1s in
	// "certplane serve". Flag: --leader-elect-retry-period.
	RetryPeriod metav1.Duration `json:"retryPeriod"`
}

// Validate returns an error for the first invalid value, with the name of its
// field.
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

// Lease is the lease that a process must hold for its controllers to work.
type Lease struct {
	Namespace, Name string
	Times           LeaseTimes
	// API is the configuration with which the lease is read and written.
	API *rest.Config
	// Identity is the holder's identity. If it is empty, each start has a new
	// identity, and Events report its election.
	Identity string
}

// String returns the lease's namespace and name, or "" for a nil lease.
func (l *Lease) String() string {
	if l == nil {
		return ""
	}
	return l.Namespace + "/" + l.Name
}

// apply makes a manager with these options work only while it holds the lease.
func (l *Lease) apply(options *ctrl.Options) error {
	if l == nil {
		return nil
	}
	options.LeaderElection = true
	// A process that waits for the lease has up-to-date caches when it gets the
	// lease.
	options.Controller.EnableWarmup = ptr.To(true)
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &l.Times.LeaseDuration.Duration, &l.Times.RenewDeadline.Duration, &l.Times.RetryPeriod.Duration
	if l.Identity == "" {
		options.LeaderElectionConfig, options.LeaderElectionNamespace, options.LeaderElectionID = l.API, l.Namespace, l.Name
		return nil
	}
	var err error
	options.LeaderElectionResourceLockInterface, err = l.lock()
	return err
}

// lock returns the lock of the lease for l.Identity.
func (l *Lease) lock() (*resourcelock.LeaseLock, error) {
	api := rest.CopyConfig(l.API)
	// A single request that hangs must not cost the lease.
	api.Timeout = l.Times.RenewDeadline.Duration / 2
	client, err := coordinationv1.NewForConfig(api)
	if err != nil {
		return nil, fmt.Errorf("making the client of the leader election: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
	}, nil
}

// announce logs text when the manager gets the lease.
func (l *Lease) announce(mgr ctrl.Manager, text string) error {
	if l == nil {
		return nil
	}
	return mgr.Add(manager.RunnableFunc(func(context.Context) error {
		klog.InfoS(text, "lease", l.String(), "holder", l.Identity)
		return nil
	}))
}

// IsLostLease reports whether a manager has ended because another
// process may lead.
func IsLostLease(err error) bool { return err != nil && strings.HasPrefix(err.Error(), lostLease) }
