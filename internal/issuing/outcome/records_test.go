package outcome

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/request"
)

// attempts are attempts to answer requests while their certificates cannot be recorded.
type attempts struct {
	records    *Records
	clock      *clocktesting.FakePassiveClock
	signatures int64
	lifetime   time.Duration
	fails      error
	stored     map[types.UID]*signer.Issued
}

func newAttempts(lifetime time.Duration) *attempts {
	a := &attempts{
		clock:    clocktesting.NewFakePassiveClock(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)),
		lifetime: lifetime, fails: errors.New("the inventory is away"), stored: map[types.UID]*signer.Issued{},
	}
	a.records = NewRecords(func(context.Context, client.Object, []byte) error { return a.fails })
	return a
}

func (a *attempts) try(t *testing.T, uid types.UID, permitted signer.Permission) {
	t.Helper()
	sign := a.records.Sign(func(_ context.Context, _ request.Request, _ signer.Permission, now time.Time) (*signer.Issued, error) {
		a.signatures++
		return &signer.Issued{Certificate: &x509.Certificate{SerialNumber: big.NewInt(a.signatures), NotBefore: now, NotAfter: now.Add(a.lifetime)}}, nil
	})
	issued, err := sign(t.Context(), request.Request{UID: string(uid)}, permitted, a.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	kind := Kind[*cmv1.CertificateRequest]{
		Write: func(_ context.Context, cr *cmv1.CertificateRequest, o Outcome) error {
			if o.Issued != nil {
				a.stored[cr.UID] = o.Issued
			}
			return nil
		},
		Shows: func(*cmv1.CertificateRequest, Outcome) bool { return false },
		Waits: func(*cmv1.CertificateRequest) bool { return true }, Records: a.records,
	}
	cr := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	_, err = kind.Put(t.Context(), cr, Outcome{State: Issued, Issued: issued}, Report{Clock: a.clock, Start: a.clock.Now()})
	if !errors.Is(err, a.fails) {
		t.Fatalf("got %v", err)
	}
}

// A certificate that cannot be recorded is signed once, however often its request is tried, and
// stored when it can be recorded.
func TestSignedOnce(t *testing.T) {
	const day = 24 * time.Hour
	a := newAttempts(90 * day)
	for range 20 {
		a.clock.SetTime(a.clock.Now().Add(2 * time.Minute))
		a.try(t, "a", signer.Permission{})
	}
	a.try(t, "b", signer.Permission{})
	if a.signatures != 2 || len(a.stored) != 0 {
		t.Fatalf("%d signatures for two requests, %d stored", a.signatures, len(a.stored))
	}
	a.fails = nil
	a.try(t, "a", signer.Permission{})
	a.try(t, "b", signer.Permission{})
	if a.signatures != 2 || a.stored["a"].Certificate.SerialNumber.Int64() != 1 || a.stored["b"].Certificate.SerialNumber.Int64() != 2 {
		t.Errorf("%d signatures, stored: %v", a.signatures, a.stored)
	}
	if a.try(t, "a", signer.Permission{}); a.signatures != 3 {
		t.Errorf("a certificate that is recorded is still held: %d signatures", a.signatures)
	}
}

// Another certificate is signed if the one that is held has lost too much of its lifetime, or
// policies do not permit it any more.
func TestHeldForLimitedTime(t *testing.T) {
	short, refused := 30*time.Minute, errors.New("refused")
	for _, tc := range []struct {
		reason    string
		lifetime  time.Duration
		after     time.Duration
		permitted signer.Permission
		want      int64
	}{
		{"an hour later", 90 * 24 * time.Hour, time.Hour, signer.Permission{}, 2},
		{"less than an hour later", 90 * 24 * time.Hour, 59 * time.Minute, signer.Permission{}, 1},
		{"a tenth of the lifetime later", time.Hour, 6 * time.Minute, signer.Permission{}, 2},
		{"less than a tenth later", time.Hour, 5 * time.Minute, signer.Permission{}, 1},
		{"policies shorten the lifetime", time.Hour, 0, signer.Permission{Lifetime: request.LifetimeLimits{Max: &short}}, 2},
		{"policies refuse the certificate", time.Hour, 0, signer.Permission{Certificate: func(*x509.Certificate) error { return refused }}, 2},
		{"policies permit the certificate", time.Hour, 0, signer.Permission{Certificate: func(*x509.Certificate) error { return nil }}, 1},
	} {
		a := newAttempts(tc.lifetime)
		a.try(t, "a", signer.Permission{})
		a.clock.SetTime(a.clock.Now().Add(tc.after))
		if a.try(t, "a", tc.permitted); a.signatures != tc.want {
			t.Errorf("%s: %d signatures, want %d", tc.reason, a.signatures, tc.want)
		}
	}
}

// A client that makes requests without end does not fill the memory.
func TestHeldBounded(t *testing.T) {
	a := newAttempts(90 * 24 * time.Hour)
	for n := range mostHeld + 100 {
		a.try(t, types.UID(fmt.Sprint(n)), signer.Permission{})
	}
	if len(a.records.held) != mostHeld {
		t.Errorf("%d are held", len(a.records.held))
	}
	a.clock.SetTime(a.clock.Now().Add(2 * time.Hour))
	if a.try(t, "later", signer.Permission{}); len(a.records.held) != 1 {
		t.Errorf("%d are held after their time", len(a.records.held))
	}
}
