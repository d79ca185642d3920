package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/run/server"
)

// The Lease of cert-manager's cainjector, in the namespace that its chart chooses for it.
const (
	otherNamespace = "leases"
	otherLease     = "cert-manager-cainjector-leader-election"
	// inject is the annotation for a webhook configuration.
	inject = "cert-manager.io/inject-ca-from-secret"
)

func leaseTimes(lease, renew, retry time.Duration) controllermanager.LeaseTimes {
	in := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	return controllermanager.LeaseTimes{LeaseDuration: in(lease), RenewDeadline: in(renew), RetryPeriod: in(retry)}
}

// certManagers are the times of cert-manager's elections.
var certManagers = leaseTimes(60*time.Second, 40*time.Second, 15*time.Second)

// holdOther configures the CA injector, which waits for otherLease.
func holdOther(c *cluster.Config) {
	c.Controllers = []string{"*", "cainjector"}
	c.LeaderElection.AlsoHold = []controllermanager.OtherLease{{Namespace: otherNamespace, Name: otherLease}}
}

// startInterlocked installs the CA injector beside a program that may hold otherLease, and
// returns the configuration of its processes. Their controllers act as accounts with the
// rights that the manifests grant.
func startInterlocked(t *testing.T) (world, cluster.Config) {
	t.Helper()
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} })
	apitest.NewNamespace(t, apitest.Client(t, s.Admin(t)), otherNamespace)
	w := startInWith(t, s, holdOther)
	cfg := w.config(t)
	holdOther(&cfg)
	cfg.LeaderElection.AlsoHold[0].Times = leaseTimes(time.Hour, time.Minute, 100*time.Millisecond)
	return w, cfg
}

// peer runs an election as cert-manager's cainjector does, until stop is called. If it is
// killed, it does not release the lease.
func (w world) peer(t *testing.T, times controllermanager.LeaseTimes, killed bool) (leads <-chan struct{}, stop func()) {
	t.Helper()
	leading, ended := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: otherNamespace, Name: otherLease},
			Client:     w.admin.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: peerIdentity},
		},
		LeaseDuration: times.LeaseDuration.Duration, RenewDeadline: times.RenewDeadline.Duration, RetryPeriod: times.RetryPeriod.Duration,
		ReleaseOnCancel: !killed,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(leading) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		elector.Run(ctx)
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return leading, stop
}

// peerIdentity is an identity as cert-manager's programs choose it.
const peerIdentity = "cert-manager-cainjector-5c4b_6f1d7c2e-0000-4000-8000-000000000000"

// other returns the other program's lease as it is now.
func (w world) other(t *testing.T) coordinationv1.LeaseSpec {
	t.Helper()
	lease, err := w.admin.CoordinationV1().Leases(otherNamespace).Get(t.Context(), otherLease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return coordinationv1.LeaseSpec{}
	}
	if err != nil {
		t.Fatal(err)
	}
	return lease.Spec
}

// holdsOther reports whether a process of certplane holds the other lease.
func (w world) holdsOther(t *testing.T) bool {
	t.Helper()
	return ptr.Deref(w.other(t).HolderIdentity, "") == "certplane-system/certplane-controllers"
}

func (w world) caOf(t *testing.T, name string) []byte {
	t.Helper()
	hook, err := w.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return hook.Webhooks[0].ClientConfig.CABundle
}

// waits reports whether the metric of the other lease has this value.
func waits(t *testing.T, cfg cluster.Config, value string) bool {
	t.Helper()
	return bytes.Contains(scrape(t, cfg), []byte("\ncertplane_waits_for_lease{lease=\""+otherNamespace+"/"+otherLease+"\"} "+value+"\n"))
}

// While another program holds its lease, the controllers of the row wait and the others
// work. When the program stops, they start. When certplane stops, the program can start.
func TestInterlock(t *testing.T) {
	w, cfg := startInterlocked(t)
	cfg.Metrics.BindAddress, cfg.Metrics.Anonymous = apitest.FreeAddress(t), true
	leads, stopPeer := w.peer(t, certManagers, false)
	<-leads
	ca := w.source(t, "default")
	w.hook(t, "hook", inject, "default/ca")
	p := run(t, cfg) // it is ready while it waits
	w.sign(t, "alice")
	apitest.Eventually(t, "the metric reports that it waits", func() bool { return waits(t, cfg, "1") })
	if !ready(cfg) {
		t.Error("not ready while it waits")
	}
	if got := w.caOf(t, "hook"); len(got) > 0 {
		t.Error("the CA is injected while the other program works")
	}
	stopPeer()
	w.awaitCA(t, "hook", ca)
	if !w.holdsOther(t) {
		t.Errorf("works without the lease, which %v holds", w.other(t))
	}
	apitest.Eventually(t, "the metric reports that it does not wait", func() bool { return waits(t, cfg, "0") })

	leads, _ = w.peer(t, leaseTimes(3*time.Second, 2*time.Second, 100*time.Millisecond), false)
	w.hook(t, "another", inject, "default/ca")
	w.awaitCA(t, "another", ca) // the other program is a standby
	p.stop()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	// certplane's lease would end in an hour only.
	apitest.Eventually(t, "the lease was released", func() bool {
		select {
		case <-leads:
			return true
		default:
			return false
		}
	})
	if w.leader(t) != "" {
		t.Error("the process's own lease is held after the stop")
	}
}

// The lease of a program that was killed is taken when it has run out, not earlier.
func TestInterlockKilledPeer(t *testing.T) {
	w, cfg := startInterlocked(t)
	times := leaseTimes(4*time.Second, 3*time.Second, 500*time.Millisecond)
	leads, kill := w.peer(t, times, true)
	<-leads
	run(t, cfg)
	kill()
	last := w.other(t)
	if holder := ptr.Deref(last.HolderIdentity, ""); holder != peerIdentity {
		t.Fatalf("%q holds the lease", holder)
	}
	apitest.Eventually(t, "the lease is taken", func() bool { return w.holdsOther(t) })
	if waited := w.other(t).AcquireTime.Sub(last.RenewTime.Time); waited < times.LeaseDuration.Duration {
		t.Errorf("taken %s after its last renewal", waited)
	}
}

// A lease that does not exist is created, so that a program installed later waits.
func TestInterlockCreatesLease(t *testing.T) {
	w, cfg := startInterlocked(t)
	if spec := w.other(t); spec.HolderIdentity != nil {
		t.Fatalf("the lease exists: %v", spec)
	}
	run(t, cfg)
	apitest.Eventually(t, "the lease is held", func() bool { return w.holdsOther(t) })
	for name, want := range map[string]bool{otherLease: true, "another": false} {
		for _, verb := range []string{"get", "update", "patch"} {
			if got := w.Allowed(t, "system:serviceaccount:certplane-system:certplane-controllers", nil, authorizationv1.ResourceAttributes{
				Namespace: otherNamespace, Verb: verb, Group: coordinationv1.GroupName, Resource: "leases", Name: name,
			}); got != want {
				t.Errorf("may %s the lease %s: %t", verb, name, got)
			}
		}
	}
}

// When another program takes the lease away, all controllers stop, as without their own lease,
// and begin again.
func TestInterlockLostLease(t *testing.T) {
	w, cfg := startInterlocked(t)
	cfg.LeaderElection.AlsoHold[0].Times = leaseTimes(3*time.Second, 2*time.Second, 100*time.Millisecond)
	p := run(t, cfg)
	apitest.Eventually(t, "the lease is held", func() bool { return w.holdsOther(t) })
	// What cannot be done at the next start is repeated.
	if err := w.admin.CoreV1().ServiceAccounts("certplane-system").Delete(t.Context(), "csr-approver", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"spec":{"holderIdentity":"somebody else"}}`)
	if _, err := w.admin.CoordinationV1().Leases(otherNamespace).Patch(t.Context(), otherLease, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the controllers have stopped", func() bool { return stopped(cfg) })
	w.install(t, holdOther)
	apitest.Eventually(t, "the lease is held again when the other holder's has run out", func() bool {
		p.lives(t)
		return w.holdsOther(t)
	})
	ca := w.source(t, "default")
	w.hook(t, "hook", inject, "default/ca")
	w.awaitCA(t, "hook", ca)
}

// Of two processes, the leader holds both leases. The next leader takes over both: from one
// that has stopped, and at once from one that was killed.
func TestInterlockTwoProcesses(t *testing.T) {
	w, cfg := startInterlocked(t)
	first := run(t, cfg)
	apitest.Eventually(t, "the lease is held", func() bool { return w.holdsOther(t) })
	next := cfg
	next.Health.BindAddress = apitest.FreeAddress(t)
	second := run(t, next)
	ca := w.source(t, "default")
	w.hook(t, "first", inject, "default/ca")
	w.awaitCA(t, "first", ca)
	first.stop()
	w.hook(t, "second", inject, "default/ca")
	w.awaitCA(t, "second", ca)
	second.stop()
	<-second.ended

	killed := fmt.Sprintf(`{"spec":{"holderIdentity":"certplane-system/certplane-controllers","leaseDurationSeconds":3600,"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	if _, err := w.admin.CoordinationV1().Leases(otherNamespace).Patch(t.Context(), otherLease, types.MergePatchType, []byte(killed), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	run(t, cfg)
	w.hook(t, "third", inject, "default/ca")
	w.awaitCA(t, "third", ca)
}

// All controllers of the set work when their Leases are held, with the rights that the
// manifests grant for the set.
func TestInterlockCertManager(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} })
	change := func(c *cluster.Config) {
		c.Controllers, c.Webhook.Serve = []string{"*", "@cert-manager"}, "Never" // the server itself validates
		c.LeaderElection.AlsoHold = []controllermanager.OtherLease{
			{Namespace: "default", Name: "cert-manager-controller", Times: leaseTimes(time.Hour, time.Minute, 100*time.Millisecond)},
			{Namespace: "default", Name: otherLease, Times: leaseTimes(time.Hour, time.Minute, 100*time.Millisecond)},
		}
	}
	w := startInWith(t, s, change)
	cfg := w.config(t)
	change(&cfg)
	run(t, cfg)
	admin := connect(t, w.Admin(t))
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	web := &cmv1.Certificate{ObjectMeta: in("web"), Spec: cmv1.CertificateSpec{
		SecretName: "web", CommonName: "web", IssuerRef: cmmeta.IssuerReference{Name: "own"},
		PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
	}}
	for _, object := range []client.Object{
		&cmv1.Issuer{ObjectMeta: in("own"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}}, web,
	} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	apitest.Eventually(t, "the certificate is issued", func() bool {
		secret, err := w.admin.CoreV1().Secrets("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && len(secret.Data["tls.crt"]) > 0
	})
}
