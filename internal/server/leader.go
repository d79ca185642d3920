package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/certplane/certplane/internal/controllers"
	"github.com/certplane/certplane/internal/rights"
)

// election lets one of the servers that share an etcd run the controllers. Nil
// is for a server that is alone with its store: the lock of its data directory
// keeps others away.
type election struct {
	times controllers.LeaseTimes
	// identity is this server's in the lease.
	identity string
	// api is how the lease is reached: as the server itself, so that no
	// authorizer can keep the controllers from working.
	api *rest.Config
}

// newElection returns nil if the store is this server's alone.
func newElection(cfg Config, lock *os.File) (*election, error) {
	if len(cfg.Etcd.Servers) == 0 {
		return nil, nil
	}
	identity, err := leaseIdentity(lock)
	return &election{times: cfg.LeaderElection, identity: identity}, err
}

// leaseIdentity names whoever holds the lock of a data directory. It is the same
// after a crash: that lock proves that the process before has ended, so its
// lease need not run out first. It differs for each boot of a machine and each
// file: what was made from a copy of this data directory has another one.
func leaseIdentity(lock *os.File) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("asking for the name of this host: %w", err)
	}
	info, err := lock.Stat()
	if err != nil {
		return "", fmt.Errorf("reading the lock file: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	file, ok := info.Sys().(*syscall.Stat_t)
	if err != nil || !ok { // nobody knows it again
		return host + "_" + newToken(), nil
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", boot, file.Dev, file.Ino))
	return host + "_" + hex.EncodeToString(digest[:8]), nil
}

// apply has a manager with these options work while it holds the lease.
func (e *election) apply(options *ctrl.Options) error {
	if e == nil {
		return nil
	}
	api := rest.CopyConfig(e.api)
	// One request that hangs must not cost the lease.
	api.Timeout = e.times.RenewDeadline.Duration / 2
	client, err := coordinationv1.NewForConfig(api)
	if err != nil {
		return fmt.Errorf("making the client of the leader election: %w", err)
	}
	e.times.Elect(options)
	options.LeaderElectionResourceLockInterface = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: rights.ServeNamespace, Name: controllers.LeaseName},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.identity},
	}
	return nil
}

// announce has the log say when the manager gets the lease.
func (e *election) announce(mgr ctrl.Manager) error {
	if e == nil {
		return nil
	}
	return mgr.Add(manager.RunnableFunc(func(context.Context) error {
		klog.InfoS("The controllers work on this server from now on", "lease", rights.ServeNamespace+"/"+controllers.LeaseName, "holder", e.identity)
		return nil
	}))
}

// work runs the controllers until ctx ends. A server that has lost the lease
// serves the API as before and waits for the lease again, with other
// controllers: those that had it end with it.
func (p *parts) work(ctx context.Context) error {
	for {
		err := p.controllers.Start(ctx)
		if !controllers.IsLostLease(err) || ctx.Err() != nil {
			return err
		}
		klog.FromContext(ctx).Info("The lease of the controllers is lost: another server may run them now. Waiting for it",
			"lease", rights.ServeNamespace+"/"+controllers.LeaseName)
		if p.controllers, err = p.newControllers(); err != nil {
			return err
		}
	}
}
