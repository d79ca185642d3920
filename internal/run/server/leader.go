package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// newLease returns the lease that selects which of the servers that share an etcd runs the
// controllers. It returns nil if this server has its own store: the lock of the data
// directory then excludes other servers.
func newLease(cfg Config, lock *os.File) (*controllermanager.Lease, error) {
	if len(cfg.Etcd.Servers) == 0 {
		return nil, nil
	}
	identity, err := leaseIdentity(lock)
	return &controllermanager.Lease{
		Namespace: rights.ServeNamespace, Name: controllermanager.LeaseName, Times: cfg.LeaderElection, Identity: identity,
	}, err
}

// leaseIdentity names the holder of the lock of a data directory. It is the
// same after a crash: the lock proves that the former process has ended, so its
// lease need not run out first. It differs for each boot of a machine and each
// file: a copy of this data directory has another identity.
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
	if err != nil || !ok { // it is not recognized after a crash
		return host + "_" + newToken(), nil
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", boot, file.Dev, file.Ino))
	return host + "_" + hex.EncodeToString(digest[:8]), nil
}

// work runs the controllers until ctx ends. Whatever ends them, the server serves the API
// as before and starts new ones: the old ones end with their lease.
func (p *parts) work(ctx context.Context) error {
	announced := sync.OnceFunc(func() { close(p.filled) })
	for pause := worker.FirstPause; ; pause = min(2*pause, worker.LastPause) {
		began := time.Now()
		err := p.workOnce(ctx, announced)
		if ctx.Err() != nil {
			return err
		}
		if controllermanager.IsLostLease(err) {
			klog.FromContext(ctx).Info("The lease of the controllers is lost: another server may run them now. Waiting for it",
				"lease", p.lease.String())
		} else {
			klog.FromContext(ctx).Error(err, "The controllers have ended; starting them again", "in", pause)
		}
		if time.Since(began) > worker.LastPause {
			pause = worker.FirstPause
		}
		for {
			if !worker.Sleep(ctx, pause) {
				return ctx.Err()
			}
			if p.controllers, err = p.newControllers(); err == nil {
				break
			}
			klog.FromContext(ctx).Error(err, "Cannot start the controllers again yet")
		}
	}
}

// workOnce runs one set of controllers until it ends, and calls filled once their shared
// cache is filled.
func (p *parts) workOnce(ctx context.Context, filled func()) error {
	controllers := p.controllers
	defer alongside(ctx, func(ctx context.Context) {
		if isFilled(ctx, controllers.GetCache()) {
			filled()
			p.whileLeading(ctx, controllers.Elected(), "records of stored certificates", p.api.RecordStored)
		}
	})()
	defer alongside(ctx, func(ctx context.Context) {
		p.whileLeading(ctx, controllers.Elected(), "certificates of pending requests", p.api.RevokePending)
	})()
	return controllers.Start(ctx)
}

// isFilled waits until the cache is filled. It returns false if ctx ends before. The library
// looks at once, and then every 100 ms, which would delay each start.
func isFilled(ctx context.Context, objects cache.Cache) bool {
	for ctx.Err() == nil {
		looking, cancel := context.WithTimeout(ctx, readyPoll)
		filled := objects.WaitForCacheSync(looking)
		cancel()
		if filled {
			return true
		}
	}
	return false
}

// whileLeading does something with a client once this server leads, until it succeeds: the
// former leader may have left it undone, or be of a version that does not do it.
func (p *parts) whileLeading(ctx context.Context, elected <-chan struct{}, what string, do func(context.Context, client.Reader) error) {
	select {
	case <-ctx.Done():
		return
	case <-elected:
	}
	any := func(error) bool { return true }
	_ = worker.Patiently(ctx, what, any, func(ctx context.Context) error { // it fails with ctx alone
		api, err := p.openObjects()
		if err != nil {
			return err
		}
		return do(ctx, api)
	})
}

// openObjects returns a client with all rights for the kinds of the controllers.
func (p *parts) openObjects() (client.Client, error) {
	kinds, err := controllermanager.NewScheme()
	if err != nil {
		return nil, err
	}
	web, err := rest.HTTPClientFor(p.asServer)
	if err != nil {
		return nil, err
	}
	mapper, err := newMapper(p.asServer, web)
	if err != nil {
		return nil, err
	}
	return inprocess.NewClient(p.asServer, client.Options{Scheme: kinds, Mapper: mapper, HTTPClient: web})
}
