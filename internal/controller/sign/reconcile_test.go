package sign

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/pki"
)

var resource = schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}

func conflict() error { return apierrors.NewConflict(resource, "alice", errors.New("changed")) }

func TestSigns(t *testing.T) {
	f := newFixture(t, approved(t))
	assertQuiet(t, f)

	certs, err := pki.ParseCertificates(f.get().Status.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if len(certs) != 1 || certs[0].Subject.String() != "CN=alice" {
		t.Errorf("got %d certificates, the first for %s", len(certs), certs[0].Subject)
	}
	if got, want := certs[0].NotAfter, now.Add(8760*time.Hour-5*time.Minute); !got.Equal(want) {
		t.Errorf("ends at %v, want %v", got, want)
	}
	if f.writes != 1 {
		t.Errorf("%d writes, want 1", f.writes)
	}
	for _, part := range []string{
		`"msg"="Issued certificate"`, `"requester"="requester"`, `"uid"="uid-1"`,
		fmt.Sprintf(`"serial"="%x"`, certs[0].SerialNumber), `"sha256"="` + pki.Fingerprint(certs[0]) + `"`,
	} {
		if !strings.Contains(f.log.String(), part) {
			t.Errorf("log does not say %s:\n%s", part, &f.log)
		}
	}
	if got := f.eventText(); !strings.Contains(got, "Normal Issued Issued the certificate with serial number") {
		t.Errorf("events are %q", got)
	}
	assertMetrics(t, f, map[string]float64{
		"certplane_signing_issued_total":               1,
		"certplane_signing_signature_duration_seconds": 1,
		"certplane_signing_duration_seconds":           1,
	})
}

func TestLeavesAlone(t *testing.T) {
	tests := []struct {
		reason string
		change func(*csr)
	}{
		{reason: "undecided", change: func(c *csr) { c.Status.Conditions = nil }},
		{reason: "failed", change: func(c *csr) {
			c.Status.Conditions = append(c.Status.Conditions, condition{Type: "Failed", Status: "True"})
		}},
		{reason: "issued", change: func(c *csr) { c.Status.Certificate = []byte("x") }},
		{reason: "not there", change: func(c *csr) { c.Name = "bob" }},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			c := approved(t)
			tc.change(c)
			f := newFixture(t, c)
			assertQuiet(t, f)
			if f.signatures != 0 || f.writes != 0 {
				t.Errorf("%d signatures, %d writes, want none", f.signatures, f.writes)
			}
		})
	}
}

func TestFails(t *testing.T) {
	c := approved(t)
	c.Spec.Usages = append(c.Spec.Usages, "server auth")
	f := newFixture(t, c)
	assertQuiet(t, f)

	want := certificatesv1.CertificateSigningRequestStatus{Conditions: []condition{
		{Type: "Approved", Status: "True"},
		{
			Type: "Failed", Status: "True", Reason: "SignerValidationFailure",
			Message: "invalid usage for client certificate: server auth", LastUpdateTime: metav1.NewTime(now),
		},
	}}
	if diff := cmp.Diff(want, f.get().Status); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := f.eventText(); !strings.Contains(got, "Warning SignerValidationFailure invalid usage") {
		t.Errorf("events are %q", got)
	}
	assertMetrics(t, f, map[string]float64{"certplane_signing_refused_total": 1})

	assertQuiet(t, f)
	if f.writes != 1 {
		t.Errorf("%d writes after a second look, want 1", f.writes)
	}
}

func TestDelays(t *testing.T) {
	f := newFixture(t, approved(t))
	f.ca.err = errors.New("cannot read /secret/path")

	for range 2 {
		if _, err := f.reconcile(); err == nil || !strings.Contains(err.Error(), "cannot read") {
			t.Errorf("error is %v, want the CA's, so that it is tried again", err)
		}
	}
	got := certificates.Condition(f.get(), certificates.ConditionDelayed)
	if got == nil || got.Reason != "SignerUnavailable" || strings.Contains(got.Message, "secret") {
		t.Errorf("condition is %+v", got)
	}
	if f.writes != 1 {
		t.Errorf("%d writes, want 1: a condition that stays is not written again", f.writes)
	}
	if got := f.eventText(); strings.Count(got, "Warning SignerUnavailable") != 1 {
		t.Errorf("events are %q", got)
	}

	f.ca.err = nil
	assertQuiet(t, f)
	if c := f.get(); len(c.Status.Certificate) == 0 || certificates.Condition(c, certificates.ConditionDelayed) != nil {
		t.Errorf("after the CA is back: %+v", c.Status)
	}
}

// The operator has to replace a CA outside of its validity. It is not a reason
// to fail a request.
func TestWaitsForAValidCA(t *testing.T) {
	f := newFixture(t, approved(t))
	good := f.ca.authority
	for _, tc := range []struct {
		begin time.Duration // of a CA for an hour, from now
		want  string
	}{
		{-2 * time.Hour, "the signer has expired: NotAfter=" + now.Add(-time.Hour).String()},
		{time.Hour, "the signer is not yet valid: NotBefore=" + now.Add(55*time.Minute).String()},
	} {
		var err error
		if f.ca.authority, err = pki.NewRoot(pki.UnrecordedSigning, "at another time", newKey(t), time.Hour, now.Add(tc.begin)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.reconcile(); err == nil {
			t.Error("no error, so it is not tried again")
		}
		if got := certificates.Condition(f.get(), certificates.ConditionDelayed); got == nil || got.Reason != "SignerExpired" || got.Message != tc.want {
			t.Errorf("condition is %+v, want %q", got, tc.want)
		}
		if got := f.eventText(); !strings.Contains(got, "Warning SignerExpired "+tc.want) {
			t.Errorf("events are %q", got)
		}
	}
	f.ca.authority = good
	assertQuiet(t, f)
	if len(f.get().Status.Certificate) == 0 {
		t.Error("no certificate with a good CA")
	}
}

// TestKeepsCertificate checks that, whatever goes wrong with writing, the one
// certificate that was signed is the one that is stored.
func TestKeepsCertificate(t *testing.T) {
	tests := []struct {
		reason string
		fault  subResourceUpdate
		writes int
	}{
		{reason: "conflict before persisting", fault: before(1, conflict()), writes: 2},
		{reason: "several conflicts", fault: before(outcome.MaxConflicts-1, conflict()), writes: outcome.MaxConflicts},
		{reason: "conflict after persisting", fault: after(conflict()), writes: 1},
		{reason: "connection lost after persisting", fault: after(errors.New("EOF")), writes: 1},
		{reason: "time-out after persisting", fault: after(apierrors.NewTimeoutError("slow", 1)), writes: 1},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t, approved(t))
			f.faults.SubResourceUpdate = tc.fault
			assertQuiet(t, f)
			if f.signatures != 1 || f.writes != tc.writes {
				t.Errorf("%d signatures, %d writes, want 1 and %d", f.signatures, f.writes, tc.writes)
			}
			assertIssuedAsLogged(t, f)
		})
	}
}

// assertIssuedAsLogged compares the stored certificate with the audit trail.
func assertIssuedAsLogged(t *testing.T, f *fixture) {
	t.Helper()
	certs, err := pki.ParseCertificates(f.get().Status.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	log := f.log.String()
	if !strings.Contains(log, pki.Fingerprint(certs[0])) || !strings.Contains(log, "Issued certificate") || strings.Contains(log, "Discarded") {
		t.Errorf("stored certificate is not the one that is logged as issued:\n%s", log)
	}
}

func TestStaleCache(t *testing.T) {
	old := approved(t)
	f := newFixture(t, old.DeepCopy())
	f.cache = newAPI(t, old)
	f.change(func(c *csr) {
		c.Labels = map[string]string{"added": "meanwhile"}
		c.Status.Conditions = append(c.Status.Conditions, condition{Type: "Other", Status: "True"})
	})
	assertQuiet(t, f)
	c := f.get()
	if len(c.Status.Certificate) == 0 || c.Labels["added"] == "" || certificates.Condition(c, "Other") == nil {
		t.Errorf("certificate of %d bytes, labels %v, conditions %v", len(c.Status.Certificate), c.Labels, c.Status.Conditions)
	}
	if f.signatures != 1 {
		t.Errorf("%d signatures, want 1", f.signatures)
	}
}

// TestSuperseded has another client answer first, so that the certificate is of
// no use.
func TestSuperseded(t *testing.T) {
	tests := []struct {
		reason    string
		meanwhile func(*fixture)
		want      string // the final certificate
	}{
		{reason: "denied", meanwhile: func(f *fixture) {
			f.change(func(c *csr) { c.Status.Conditions = []condition{{Type: "Denied", Status: "True"}} })
		}},
		{reason: "another certificate", meanwhile: func(f *fixture) {
			f.change(func(c *csr) { c.Status.Certificate = []byte("other") })
		}, want: "other"},
		{reason: "deleted and made again", meanwhile: func(f *fixture) {
			f.delete()
			again := approved(f.t)
			again.UID = "uid-2"
			f.create(again)
		}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t, approved(t))
			f.faults.SubResourceUpdate = f.meanwhile(func() { tc.meanwhile(f) })
			assertQuiet(t, f)
			if got := string(f.get().Status.Certificate); got != tc.want {
				t.Errorf("certificate is %q, want %q", got, tc.want)
			}
			if !strings.Contains(f.log.String(), "Discarded certificate") {
				t.Errorf("the signature left no trace:\n%s", &f.log)
			}
		})
	}
	t.Run("deleted", func(t *testing.T) {
		f := newFixture(t, approved(t))
		f.faults.SubResourceUpdate = f.meanwhile(f.delete)
		assertQuiet(t, f)
	})
}

func (f *fixture) delete() {
	if err := f.api.Delete(f.t.Context(), f.get()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) create(c *csr) {
	if err := f.api.Create(f.t.Context(), c); err != nil {
		f.t.Fatal(err)
	}
}

func TestGivesUp(t *testing.T) {
	tests := []struct {
		reason string
		fault  subResourceUpdate
		get    error
		want   reconcile.Result
		err    string
	}{
		{reason: "endless conflicts: quietly later", fault: before(outcome.MaxConflicts, conflict()), want: reconcile.Result{RequeueAfter: time.Second}},
		{reason: "not allowed: loudly later", fault: before(1, apierrors.NewForbidden(resource, "alice", errors.New("no sign right"))), err: "writing the status: "},
		{reason: "no API", fault: before(1, errors.New("EOF")), get: errors.New("connection refused"), err: "reading the request again after EOF: connection refused"},
		{reason: "no right to look", fault: before(1, conflict()), get: apierrors.NewForbidden(resource, "alice", nil), err: "reading the request again"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t, approved(t))
			f.faults.SubResourceUpdate = tc.fault
			if tc.get != nil {
				f.faults.Get = func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return tc.get
				}
			}
			result, err := f.reconcile()
			if result != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%+v, error %v, want %+v, %q", result, err, tc.want, tc.err)
			}
			if got := f.get().Status.Certificate; len(got) > 0 {
				t.Errorf("stored %s", got)
			}
			if !strings.Contains(f.log.String(), "Discarded certificate") {
				t.Errorf("the signature left no trace:\n%s", &f.log)
			}
		})
	}
}

func assertQuiet(t *testing.T, f *fixture) {
	t.Helper()
	result, err := f.reconcile()
	if err != nil || result != (reconcile.Result{}) {
		t.Fatalf("%+v, error %v, want nothing more to do", result, err)
	}
}

// assertMetrics compares counters, and histograms by their count.
func assertMetrics(t *testing.T, f *fixture, want map[string]float64) {
	t.Helper()
	got := map[string]float64{}
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()); value > 0 {
				got[family.GetName()] += value
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics -want +got:\n%s", diff)
	}
	if problems, err := testutil.GatherAndLint(f.registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics are not as Prometheus likes them: %v %v", problems, err)
	}
}
