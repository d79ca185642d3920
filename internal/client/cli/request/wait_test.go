package request

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
)

type step = func(*server, *watch.RaceFreeFakeWatcher)

// refusals are the final states without a certificate.
var refusals = []struct {
	reason   string
	steps    []step
	listErr  []error
	watchErr []error
	wantCode int
	wantText string
	wantNext string
}{
	{
		reason:   "denied: the approver's words are passed on",
		steps:    []step{condition(certificatesv1.CertificateDenied, "NotYou", "alice left the company")},
		wantCode: exit.Denied, wantText: "was denied: alice left the company (NotYou)", wantNext: "another name",
	},
	{
		reason:   "denied without a word",
		steps:    []step{condition(certificatesv1.CertificateDenied, "", "")},
		wantCode: exit.Denied, wantText: "no reason given",
	},
	{
		reason:   "failed: the signer's words are passed on",
		steps:    []step{condition(certificatesv1.CertificateFailed, "SignerValidationFailure", "missing required usage")},
		wantCode: exit.Failed, wantText: "signer example.com/test could not issue alice: missing required usage (SignerValidationFailure)",
	},
	{
		reason:   "approved and failed is failed",
		steps:    []step{both(condition(certificatesv1.CertificateApproved, "", ""), condition(certificatesv1.CertificateFailed, "Broken", ""))},
		wantCode: exit.Failed, wantText: "Broken",
	},
	{
		reason:   "deleted under our eyes",
		steps:    []step{deleted},
		wantCode: exit.General, wantText: "was deleted before",
	},
	{
		reason:   "another request took the name",
		steps:    []step{replaced},
		wantCode: exit.General, wantText: "another one now has its name",
	},
	{
		reason:   "no right to watch",
		watchErr: []error{apierrors.NewForbidden(resource, "", errors.New("user bob cannot watch"))},
		wantCode: exit.General, wantText: "user bob cannot watch", wantNext: "auth whoami",
	},
	{
		reason:   "no right to list",
		listErr:  []error{apierrors.NewForbidden(resource, "", errors.New("user bob cannot list"))},
		wantCode: exit.General, wantText: "user bob cannot list", wantNext: "auth whoami",
	},
}

func TestRefusals(t *testing.T) {
	for _, tt := range refusals {
		t.Run(tt.reason, func(t *testing.T) {
			b := newBench(t)
			b.Name = "alice"
			b.server.onWatch, b.server.listErr, b.server.watchErr = tt.steps, tt.listErr, tt.watchErr
			err := b.run()
			wantEnd(t, err, tt.wantCode, tt.wantText)
			if tt.wantNext != "" {
				wantNext(t, err, tt.wantNext)
			}
			wantNone(t, b.path(chainName))
			if _, err := loadKey(b.path(keyName)); err != nil {
				t.Errorf("the key of a stored request is gone: %v", err)
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	tests := []struct {
		reason   string
		steps    []step
		listErr  []error
		wantText string
		wantNext string
	}{
		{
			reason:   "no decision: it says how to approve",
			wantText: "alice was not approved or denied within", wantNext: "certplane approve alice",
		},
		{
			reason:   "no signature: it says where to look",
			steps:    []step{condition(certificatesv1.CertificateApproved, "", "")},
			wantText: "is approved, but within 50ms signer example.com/test has not issued it", wantNext: "explain alice",
		},
		{
			reason: "the signer has said why it cannot: that is what it says",
			steps: []step{func(s *server, w *watch.RaceFreeFakeWatcher) {
				condition(certificatesv1.CertificateApproved, "", "")(s, w)
				condition("SigningDelayed", "SignerUnavailable", "the endpoint does not answer")(s, w)
			}},
			wantText: "could not sign it: the endpoint does not answer (SignerUnavailable)", wantNext: "explain alice",
		},
		{
			reason:   "the server is away: it says why",
			listErr:  []error{errors.New("connection refused")},
			wantText: "connection refused",
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			b := newBench(t)
			b.Name, b.Wait = "alice", 50*time.Millisecond
			b.server.onWatch, b.server.listErr = tt.steps, tt.listErr
			err := b.run()
			wantEnd(t, err, exit.TimedOut, tt.wantText)
			wantNext(t, err, tt.wantNext)
			wantNext(t, err, "again alice "+b.path(keyName))
		})
	}
}

// A server that does not answer, such as one whose store is away, ends the run when the time
// is over, whatever was asked last.
func TestSilentServer(t *testing.T) {
	for silent, wantText := range map[string]string{
		"signers": "the server has not answered within 50ms (--wait)",
		"create":  "submitting the request: the server has not answered within 50ms (--wait)",
		"get":     "approving alice: the server has not answered within 50ms (--wait)",
		"approve": "approving alice: the server has not answered within 50ms (--wait)",
		"list":    "no certificate within 50ms: cannot read the request from the server: context deadline exceeded",
	} {
		t.Run(silent, func(t *testing.T) {
			b := newBench(t)
			b.Name, b.Wait, b.Approve, b.server.silent = "alice", 50*time.Millisecond, true, silent
			b.Signers = func(ctx context.Context) ([]v1alpha1.Signer, bool) {
				return nil, b.server.answers(ctx, "signers") == nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := Run(ctx, b.Config)
			wantEnd(t, err, exit.TimedOut, wantText)
			if silent == "signers" {
				wantNone(t, b.path(keyName)) // nothing was submitted
				return
			}
			wantNext(t, err, "again alice "+b.path(keyName))
			if silent != "list" {
				wantNext(t, err, "/readyz?verbose")
			}
		})
	}
}

// The API lets a signer issue before the approval; client-go waits for the
// approval too.
func TestCertificateCountsOnceApproved(t *testing.T) {
	b := newBench(t)
	b.Wait = 50 * time.Millisecond
	ca := newAuthority(t)
	b.server.onWatch = []step{func(s *server, w *watch.RaceFreeFakeWatcher) {
		s.stored.Status.Certificate = ca.issue(t, s.stored)
		s.stored.ResourceVersion = s.next()
		w.Modify(s.stored.DeepCopy())
	}}
	wantEnd(t, b.run(), exit.TimedOut, "was not approved or denied")
	wantNone(t, b.path(chainName))
}

// A past error of the server does not explain a timeout.
func TestTimeoutAfterTrouble(t *testing.T) {
	stored := storedRequest(t)
	s := &server{t: t, stored: stored, listErr: []error{errors.New("connection refused")}}
	w := &waiter{server: s, name: stored.Name, uid: stored.UID, last: stored.DeepCopy()}
	ctx, cancel := context.WithCancel(context.Background())
	s.onWatch = []step{func(*server, *watch.RaceFreeFakeWatcher) { cancel() }}
	if err := w.follow(ctx); err == nil || w.trouble != nil {
		t.Errorf("follow = %v with trouble %v, want the end of the context and no trouble", err, w.trouble)
	}
}

func TestInterrupted(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(context.Background())
	b.server.onWatch = []step{func(*server, *watch.RaceFreeFakeWatcher) { cancel() }}
	err := Run(ctx, b.Config)
	wantEnd(t, err, exit.Interrupted, "interrupted while waiting for alice-x7k2p")
	wantNext(t, err, "again alice-x7k2p "+b.path(keyName))
}

// A server that restarts, loses its history or is briefly behind a broken proxy
// does not end the wait.
func TestFollowOutlivesTrouble(t *testing.T) {
	ca := newAuthority(t)
	gone := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired}
	tests := []struct {
		reason  string
		steps   []step
		listErr []error
	}{
		{reason: "history lost, nothing happened meanwhile", steps: []step{watchFails(gone), signed(ca)}},
		{reason: "history lost, issued meanwhile", steps: []step{quietly(signed(ca), gone)}},
		{reason: "no connection for a moment", listErr: []error{errors.New("connection refused")}, steps: []step{signed(ca)}},
		{reason: "an overloaded server", listErr: []error{apierrors.NewTooManyRequests("slow down", 1)}, steps: []step{signed(ca)}},
		{reason: "a watch that breaks off", steps: []step{breaksOff, signed(ca)}},
		{reason: "a server in trouble", listErr: []error{apierrors.NewInternalError(errors.New("etcd"))}, steps: []step{signed(ca)}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			stored := storedRequest(t)
			s := &server{t: t, stored: stored, onWatch: tt.steps, listErr: tt.listErr}
			w := &waiter{server: s, name: stored.Name, uid: stored.UID, last: stored.DeepCopy()}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := w.follow(ctx); err != nil {
				t.Fatal(err)
			}
			if certificates.Judge(w.last).State != certificates.Issued {
				t.Errorf("last seen state is %v", certificates.Judge(w.last))
			}
		})
	}
}

func TestFollowSeesThatItIsGone(t *testing.T) {
	w := &waiter{server: &server{t: t}, name: "alice", uid: "1"}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.follow(ctx); err == nil || !strings.Contains(err.Error(), "alice was deleted") {
		t.Errorf("following a request that is not there = %v", err)
	}
}

func storedRequest(t *testing.T) *csrObject {
	t.Helper()
	b := newBench(t)
	b.Name, b.Wait = "alice", 0
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	return b.server.stored
}

func both(steps ...step) step {
	return func(s *server, w *watch.RaceFreeFakeWatcher) {
		for _, step := range steps {
			step(s, w)
		}
	}
}

// breaksOff ends the watch, as a server that stops does.
func breaksOff(_ *server, w *watch.RaceFreeFakeWatcher) { w.Stop() }

// quietly does a step for which the watch gets no event before it fails.
func quietly(do step, fails metav1.Status) step {
	return func(s *server, w *watch.RaceFreeFakeWatcher) {
		do(s, watch.NewRaceFreeFake())
		w.Error(&fails)
	}
}

func wantEnd(t *testing.T, err error, code int, text string) {
	t.Helper()
	var out strings.Builder
	if got := exit.Report(&out, err); got != code {
		t.Errorf("exit code = %d, want %d (%v)", got, code, err)
	}
	if !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("error = %v, want %q", err, text)
	}
}
