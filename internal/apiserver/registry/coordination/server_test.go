package coordination_test

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
)

func TestLeaderElection(t *testing.T) {
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	leads := make(chan string, 2)
	// run takes part in the election until the returned function is called.
	run := func(name string) func() {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: &resourcelock.LeaseLock{
					LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "l"},
					Client:     admin.CoordinationV1(),
					LockConfig: resourcelock.ResourceLockConfig{Identity: name},
				},
				LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 100 * time.Millisecond,
				ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { leads <- name },
					OnStoppedLeading: func() {},
				},
			})
		}()
		return func() { cancel(); <-done }
	}
	stopA := run("a")
	if got := <-leads; got != "a" {
		t.Fatalf("%s leads", got)
	}
	stopB := run("b")
	defer stopB()
	stopA()
	if got := <-leads; got != "b" {
		t.Fatalf("after a has gone, %s leads", got)
	}
	lease, err := admin.CoordinationV1().Leases("default").Get(t.Context(), "l", metav1.GetOptions{})
	if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != "b" || ptr.Deref(lease.Spec.LeaseTransitions, 0) == 0 {
		t.Errorf("the lease: %+v, %v", lease, err)
	}
}

func TestLeases(t *testing.T) {
	s := apitest.Start(t)
	leases := apitest.Client(t, s.Admin(t)).CoordinationV1().Leases("default")
	lease := func(edit func(*coordinationv1.LeaseSpec)) *coordinationv1.Lease {
		out := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}}
		edit(&out.Spec)
		return out
	}
	for reason, bad := range map[string]*coordinationv1.Lease{
		"no time":              lease(func(s *coordinationv1.LeaseSpec) { s.LeaseDurationSeconds = ptr.To[int32](0) }),
		"fewer than no holder": lease(func(s *coordinationv1.LeaseSpec) { s.LeaseTransitions = ptr.To[int32](-1) }),
	} {
		if _, err := leases.Create(t.Context(), bad, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", reason, err)
		}
	}
	made, err := leases.Update(t.Context(), lease(func(s *coordinationv1.LeaseSpec) {
		s.HolderIdentity, s.PreferredHolder, s.Strategy = ptr.To("x"), ptr.To("y"), ptr.To(coordinationv1.OldestEmulationVersion)
	}), metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("PUT that creates: %v", err)
	}
	if made.Spec.PreferredHolder != nil || made.Spec.Strategy != nil {
		t.Errorf("the server would have to elect the leader: %+v", made.Spec)
	}
	stale := made.DeepCopy()
	made.Spec.HolderIdentity = ptr.To("y")
	if _, err := leases.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := leases.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("taking a lease that somebody else has taken: %v", err)
	}
	stale.ResourceVersion = ""
	if _, err := leases.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("taking a lease without a look at it: %v", err)
	}
}
