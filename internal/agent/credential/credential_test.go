package credential

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
)

var (
	start = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	mine  = Purpose{PodUID: "uid-1", Source: "spiffe"}
)

// half is a deterministic jitter.
func half(bound time.Duration) time.Duration { return bound / 2 }

// host is a host that follows the decisions about one certificate.
type host struct {
	t       *testing.T
	now     time.Time
	purpose Purpose
	record  Record
	// request is the request that the server has.
	request *certificatesv1.PodCertificateRequest
	gone    bool
	sendErr error
	asked   int
	last    Decision
	events  []string
}

func newHost(t *testing.T) *host { return &host{t: t, now: start, purpose: mine} }

// step makes one decision and carries it out.
func (h *host) step() {
	h.t.Helper()
	h.reload()
	h.last = Decide(h.record, h.purpose, Seen{Request: h.request, Gone: h.gone}, h.now, half)
	h.record = h.last.Record
	for _, event := range h.last.Events {
		h.events = append(h.events, event.Reason)
	}
	if h.last.Action == CreateRequest {
		request, err := NewRequest("ED25519", h.purpose)
		if err != nil {
			h.t.Fatal(err)
		}
		h.record = h.record.WithRequest(request)
	}
	if h.last.Action == Wait {
		return
	}
	h.asked++
	if h.sendErr != nil {
		h.record = h.record.Unsent(h.sendErr, false, h.now, half)
		return
	}
	h.record, h.gone = h.record.Sent(h.now, half), false
	h.request = &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: h.record.Pending.Name}}
}

// reload simulates a restart of the agent, which keeps only the record.
func (h *host) reload() {
	h.t.Helper()
	data, err := json.Marshal(h.record)
	if err != nil {
		h.t.Fatal(err)
	}
	h.record = Record{}
	if err := json.Unmarshal(data, &h.record); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) after(d time.Duration) { h.now = h.now.Add(d); h.step() }

func (h *host) answer(kind, reason string) {
	h.request.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: "so said the signer"}}
	h.step()
}

// issue answers with a certificate for one day that is due for renewal half an
// hour before it expires.
func (h *host) issue() {
	h.t.Helper()
	key, err := pki.ParsePrivateKey(h.record.Pending.Key)
	if err != nil {
		h.t.Fatal(err)
	}
	h.answerWith(key.Public())
}

func (h *host) answerWith(key crypto.PublicKey) {
	h.t.Helper()
	ca := newCA(h.t)
	chain, err := ca.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "x"}, key, pki.ClientUsages(), 24*time.Hour, h.now)
	if err != nil {
		h.t.Fatal(err)
	}
	h.request.Status = certificatesv1.PodCertificateRequestStatus{
		CertificateChain: "junk\n" + string(pki.EncodeCertificates(chain...)),
		NotBefore:        &metav1.Time{Time: chain[0].NotBefore},
		NotAfter:         &metav1.Time{Time: chain[0].NotAfter},
		BeginRefreshAt:   &metav1.Time{Time: chain[0].NotAfter.Add(-30 * time.Minute)},
	}
	h.answer("Issued", "Issued")
}

func (h *host) want(reason string, state State, asked int, wake time.Duration) {
	h.t.Helper()
	if got := h.record.StateAt(h.now); got != state {
		h.t.Errorf("%s: state = %s, want %s", reason, got, state)
	}
	if h.asked != asked {
		h.t.Errorf("%s: asked %d times, want %d", reason, h.asked, asked)
	}
	if got := h.last.Wake.Sub(h.now); wake != 0 && got != wake {
		h.t.Errorf("%s: wakes after %s, want %s", reason, got, wake)
	}
}

func newCA(t *testing.T) *pki.Authority {
	t.Helper()
	key, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "test", key, 10*365*24*time.Hour, start.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestFullLife(t *testing.T) {
	h := newHost(t)
	h.step()
	h.want("first sight", NotYetIssued, 1, 0)
	h.step()
	h.want("waiting", NotYetIssued, 1, abandonAfter+maxJitter/2)
	h.issue()
	first := *h.record.Current
	h.want("issued", Fresh, 1, first.RefreshAt.Sub(h.now))
	if want := first.NotAfter.Add(-30*time.Minute + maxJitter/2); !first.RefreshAt.Equal(want) {
		t.Errorf("refresh at %s, want the signer's time and half of the jitter, %s", first.RefreshAt, want)
	}
	if !bytes.HasPrefix(first.Chain, []byte("-----BEGIN CERTIFICATE-----")) {
		t.Errorf("the chain has text around its blocks: %.40q", []byte(first.Chain))
	}
	h.after(23 * time.Hour)
	h.want("not due", Fresh, 1, 0)
	h.after(first.RefreshAt.Sub(h.now))
	h.want("due", Fresh, 2, 0)
	if !bytes.Equal(h.record.Current.Key, first.Key) || bytes.Equal(h.record.Pending.Key, first.Key) {
		t.Error("the old key is not served, or asked for again")
	}
	h.issue()
	h.want("refreshed", Fresh, 2, 0)
	if bytes.Equal(h.record.Current.Chain, first.Chain) {
		t.Error("the old certificate is still served")
	}
	if len(h.events) > 0 {
		t.Errorf("events of an ordinary life: %v", h.events)
	}
}

// A signer's refusal does not remove a valid certificate, and the agent tries
// again.
func TestRefusals(t *testing.T) {
	for _, kind := range []FailureKind{Denied, Failed} {
		t.Run(string(kind), func(t *testing.T) {
			h := newHost(t)
			h.step()
			h.answer(string(kind), "UnsupportedKeyType")
			h.want("refused", map[FailureKind]State{Denied: DeniedState, Failed: FailedState}[kind], 1, 5*time.Minute+75*time.Second/2)
			if f := h.record.Failure; f.Reason != "UnsupportedKeyType" || f.Message != "so said the signer" {
				t.Errorf("the record says %q, %q", f.Reason, f.Message)
			}
			h.step()
			h.want("too soon", h.record.StateAt(h.now), 1, 0)
			for asked := 2; asked < 10; asked++ {
				h.now = h.last.Wake
				h.step()
				h.answer(string(kind), "No")
				h.want("again", h.record.StateAt(h.now), asked, 0)
			}
			if wait := h.last.Wake.Sub(h.now); wait < time.Hour || wait > 75*time.Minute {
				t.Errorf("after many refusals it waits %s, want about an hour", wait)
			}
			h.record = h.record.Retry(h.now)
			h.step()
			h.want("when told so", h.record.StateAt(h.now), 10, 0)
			h.issue()
			h.want("at last", Fresh, 10, 0)
			serving := h.record.Current.Chain
			h.now = h.record.Current.RefreshAt
			h.step()
			h.answer(string(kind), "No")
			h.want("refused on refresh", Fresh, 11, 0)
			h.after(11 * time.Minute)
			h.want("late", Overdue, 12, 0)
			h.answer(string(kind), "No")
			h.after(time.Hour)
			h.want("over", Expired, 13, 0)
			if !bytes.Equal(h.record.Current.Chain, serving) {
				t.Error("the last good certificate is not served any more")
			}
			h.step()
			if o, e := count(h.events, eventOverdue), count(h.events, eventExpired); o != 1 || e != 1 {
				t.Errorf("%d events of a late refresh, %d of an expiry, want one of each", o, e)
			}
			if n := count(h.events, string(kind)); n != 11 {
				t.Errorf("%d events of refusals, want 11", n)
			}
		})
	}
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// A request that no signer answers is recreated when it is gone.
func TestUnanswered(t *testing.T) {
	tests := []struct {
		reason string
		lose   func(*host)
		asked  int
	}{
		{"seen to be deleted", func(h *host) { h.request, h.gone = nil, true; h.after(time.Second) }, 1},
		{"not seen for a moment", func(h *host) { h.request = nil; h.after(time.Minute) }, 1},
		{"not seen for long", func(h *host) { h.request = nil; h.after(13 * time.Minute) }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			h := newHost(t)
			h.step()
			name := h.record.Pending.Name
			tt.lose(h)
			h.want(tt.reason, NotYetIssued, tt.asked, 0)
			for h.asked == 1 {
				h.now = h.last.Wake.Add(time.Second)
				h.step()
			}
			if h.asked != 2 || h.record.Pending.Name == name {
				t.Errorf("asked %d times, last as %s after %s", h.asked, h.record.Pending.Name, name)
			}
			h.issue()
			h.want("issued", Fresh, 2, 0)
		})
	}
}

// While the server is away, the same request is sent until it arrives. A
// request that arrived although its answer was lost is found.
func TestServerAway(t *testing.T) {
	h := newHost(t)
	h.sendErr = errors.New("connection refused")
	h.step()
	name := h.record.Pending.Name
	for range 20 {
		h.now = h.record.Failure.RetryAt
		h.step()
	}
	if wait := h.record.Failure.RetryAt.Sub(h.now); wait < time.Minute || wait > 75*time.Second {
		t.Errorf("after many failures it waits %s, want about a minute", wait)
	}
	if h.record.Pending.Name != name {
		t.Error("each attempt had a new key")
	}
	h.request = &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	h.step()
	if h.record.Pending.SentAt.IsZero() {
		t.Error("a request that the server has counts as unsent")
	}
	if h.record.Failure != nil {
		t.Errorf("after the request has arrived there is still a failure: %+v", h.record.Failure)
	}
	h.issue()
	h.want("issued", Fresh, 21, 0)
}

func TestRequestThatIsNeverTaken(t *testing.T) {
	h := newHost(t)
	h.step()
	h.record = h.record.Unsent(errors.New("invalid"), true, h.now, half)
	if h.record.Pending != nil {
		t.Error("what the server will never take is kept")
	}
}

func TestCertificateOfAnotherKey(t *testing.T) {
	h := newHost(t)
	h.step()
	other, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	h.answerWith(other.Public())
	h.want("issued for another", NotYetIssued, 1, 0)
	if f := h.record.Failure; f == nil || f.Kind != Unusable {
		t.Errorf("failure = %+v", f)
	}
}

// A pod that was recreated needs certificates of its own; until they exist the
// old ones stay.
func TestPurposeChanges(t *testing.T) {
	h := newHost(t)
	h.step()
	h.answer("Denied", "No")
	h.purpose.Source = "other"
	h.step()
	h.want("after a change of the source, at once", NotYetIssued, 2, 0)
	h.issue()
	h.purpose.PodUID = "uid-2"
	h.step()
	h.want("after a change of the pod", Fresh, 3, 0)
	if h.record.Current == nil {
		t.Error("nothing is served any more")
	}
	pending := h.record.Pending.Name
	h.purpose.PodUID, h.request = "uid-3", nil
	h.step()
	if h.record.Pending.Name == pending {
		t.Error("the request for another pod is waited for")
	}
}

// With a clock that is wrong by a month, every certificate is immediately due.
func TestWrongClock(t *testing.T) {
	h := newHost(t)
	h.step()
	key, err := pki.ParsePrivateKey(h.record.Pending.Key)
	if err != nil {
		t.Fatal(err)
	}
	before := h.record
	h.answerWith(key.Public())
	h.record, h.now = before, start.AddDate(0, 1, 0)
	h.step()
	h.want("issued and over", Expired, 1, minAge)
}

func TestKeysDoNotShow(t *testing.T) {
	request, err := NewRequest("ECDSAP256", mine)
	if err != nil {
		t.Fatal(err)
	}
	record := Record{Pending: request}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, *record.Pending); strings.Contains(text, "PRIVATE") || strings.Contains(text, string(request.Key)) {
			t.Errorf("%s shows the key", format)
		}
	}
}

func TestKeyTypes(t *testing.T) {
	for _, name := range KeyTypes() {
		request, err := NewRequest(name, mine)
		if err != nil {
			t.Fatal(err)
		}
		csr, err := x509.ParseCertificateRequest(request.CSR)
		if err != nil || csr.CheckSignature() != nil {
			t.Errorf("%s: %v, %v", name, err, csr.CheckSignature())
		}
		if csr.Subject.String() != "" || len(csr.Extensions) > 0 {
			t.Errorf("%s: the request says more than the key: %v, %v", name, csr.Subject, csr.Extensions)
		}
		if _, err := pki.ParsePrivateKey(request.Key); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff([]string{"ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"}, KeyTypes()); diff != "" {
		t.Errorf("key types (-want +got):\n%s", diff)
	}
	if _, err := NewRequest("rsa3072", mine); err == nil {
		t.Error("the case of a key type does not matter")
	}
}
