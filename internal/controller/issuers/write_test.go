package issuers

import (
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
)

// The status of an account is written with the readiness, and stays if a check
// says nothing of it. A notice is an Event of its own.
func TestWriteAccount(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := certmanager.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	issuer := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "acme"}}
	recorder := events.NewFakeRecorder(10)
	r := &reconciler{Config: Config{
		Kind: cmv1.IssuerKind, Clock: clocktesting.NewFakePassiveClock(time.Now()), Events: recorder,
		Config: issuing.Config{Client: fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(issuer).WithObjects(issuer).Build()},
	}}
	account := &acmev1.ACMEIssuerStatus{URI: "https://ca.example.com/account/1"}
	for _, ready := range []issuing.Ready{
		{OK: true, Reason: "Registered", Message: "registered", ACME: account, Notice: "the terms of service"},
		{Reason: "Other", Message: "other"},
	} {
		if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(issuer), issuer); err != nil {
			t.Fatal(err)
		}
		if changed, err := r.write(t.Context(), issuer, ready); err != nil || !changed {
			t.Fatalf("%v, %v", changed, err)
		}
		r.tell(issuer, ready)
		if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(issuer), issuer); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(account, issuer.Status.ACME); diff != "" {
			t.Errorf("%s: %s", ready.Reason, diff)
		}
	}
	if first, second := <-recorder.Events, <-recorder.Events; first != "Normal Registered registered" || !strings.Contains(second, "Normal Notice the terms of service") {
		t.Errorf("the Events are %q and %q", first, second)
	}
}

// Warnings about a spec are told when the spec or the condition has changed, and
// not with each check.
func TestWarnings(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := certmanager.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	issuer := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "acme", Generation: 1}}
	recorder := events.NewFakeRecorder(10)
	r := &reconciler{Config: Config{
		Kind: cmv1.IssuerKind, Clock: clocktesting.NewFakePassiveClock(time.Now()), Events: recorder,
		Config: issuing.Config{Client: fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(issuer).WithObjects(issuer).Build()},
	}}
	ready := issuing.Ready{OK: true, Reason: "Registered", Message: "registered", Warnings: []issuing.Warning{{Reason: "Odd", Message: "a field"}}}
	for i, change := range []struct {
		generation int64
		told       int
	}{{1, 1}, {1, 0}, {2, 1}, {2, 0}} {
		if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(issuer), issuer); err != nil {
			t.Fatal(err)
		}
		issuer.Generation = change.generation
		if _, err := r.write(t.Context(), issuer, ready); err != nil {
			t.Fatal(err)
		}
		told := len(recorder.Events)
		if told != change.told {
			t.Errorf("check %d: %d Events, want %d", i, told, change.told)
		}
		for range told {
			if e := <-recorder.Events; e != "Warning Odd a field" {
				t.Error(e)
			}
		}
	}
}
