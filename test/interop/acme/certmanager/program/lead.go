package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lead calls work once the process holds the Lease of cert-manager's controller in a
// namespace, with the times of cert-manager's command, which is not part of its
// module. It releases the Lease when work has ended; work ends when the Lease is lost.
func lead(ctx context.Context, kubeconfig, namespace string, work func(context.Context) error) error {
	lock, err := leaseOf(kubeconfig, namespace)
	if err != nil {
		return err
	}
	leads, stopped := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 60 * time.Second, RenewDeadline: 40 * time.Second, RetryPeriod: 15 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leads) },
			OnStoppedLeading: func() { close(stopped) },
		},
	})
	if err != nil {
		return err
	}
	held, release := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		release()
		<-stopped
	}()
	go elector.Run(held)
	select {
	case <-ctx.Done():
		return nil
	case <-leads:
	}
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		<-stopped
		stop(errors.New("the Lease is lost"))
	}()
	if err := work(working); err != nil || ctx.Err() != nil {
		return err
	}
	return context.Cause(working)
}

// leaseOf returns the Lease, with an identity like that of cert-manager's command.
func leaseOf(kubeconfig, namespace string) (resourcelock.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	identity := fmt.Sprintf("cert-manager-%d-external-cert-manager-controller", os.Getpid())
	return resourcelock.New(resourcelock.LeasesResourceLock, namespace, "cert-manager-controller", api.CoreV1(), api.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: identity})
}
