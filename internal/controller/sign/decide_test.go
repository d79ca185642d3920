package sign

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/certplane/certplane/internal/signer"
)

const signerName = certificatesv1.KubeAPIServerClientSignerName

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func with(kind certificatesv1.RequestConditionType, status corev1.ConditionStatus) condition {
	return condition{Type: kind, Status: status}
}

func TestActionable(t *testing.T) {
	approved := with(certificatesv1.CertificateApproved, corev1.ConditionTrue)
	denied := with(certificatesv1.CertificateDenied, corev1.ConditionTrue)
	tests := []struct {
		reason      string
		conditions  []condition
		signerName  string
		certificate string
		want        bool
	}{
		{reason: "approved", conditions: []condition{approved}, want: true},
		{reason: "approved counts by its presence", conditions: []condition{with(certificatesv1.CertificateApproved, "")}, want: true},
		{reason: "other conditions do not matter", conditions: []condition{with("Other", "False"), approved}, want: true},
		{reason: "delayed ones are tried again", conditions: []condition{approved, with(ConditionDelayed, "True")}, want: true},
		{reason: "undecided"},
		{reason: "denied", conditions: []condition{denied}},
		{reason: "both", conditions: []condition{approved, denied}},
		{reason: "failed", conditions: []condition{approved, with(certificatesv1.CertificateFailed, corev1.ConditionTrue)}},
		{reason: "failed without status", conditions: []condition{approved, with(certificatesv1.CertificateFailed, "")}},
		{reason: "not failed after all", conditions: []condition{approved, with(certificatesv1.CertificateFailed, corev1.ConditionFalse)}, want: true},
		{reason: "issued", conditions: []condition{approved}, certificate: "x"},
		{reason: "another signer's", conditions: []condition{approved}, signerName: "example.com/signer"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			c := &csr{
				Spec:   certificatesv1.CertificateSigningRequestSpec{SignerName: signerName},
				Status: certificatesv1.CertificateSigningRequestStatus{Conditions: tc.conditions, Certificate: []byte(tc.certificate)},
			}
			if tc.signerName != "" {
				c.Spec.SignerName = tc.signerName
			}
			if got := actionable(c, ours); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			assertPredicate(t, c, tc.want)
		})
	}
}

func ours(name string) bool { return name == signerName }

// assertPredicate: the queue gets what is actionable, whatever the event.
func assertPredicate(t *testing.T, c *csr, want bool) {
	t.Helper()
	p := (&reconciler{ours: ours}).predicate()
	if got := p.Create(event.CreateEvent{Object: c}); got != want {
		t.Errorf("create event passes: %v", got)
	}
	if got := p.Update(event.UpdateEvent{ObjectOld: &csr{}, ObjectNew: c}); got != want {
		t.Errorf("update event passes: %v", got)
	}
	if p.Delete(event.DeleteEvent{Object: c}) {
		t.Error("delete event passes")
	}
}

func TestDecide(t *testing.T) {
	issued := &signer.Issued{PEM: []byte("chain")}
	unavailable := signer.Unavailable(errors.New("disk on fire"))
	tests := []struct {
		reason string
		issued *signer.Issued
		err    error
		want   certificatesv1.CertificateSigningRequestStatus
		retry  bool
	}{
		{
			reason: "a certificate ends the delay",
			issued: issued,
			want:   certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("chain"), Conditions: []condition{{Type: "Approved"}}},
		},
		{
			reason: "a permanent verdict fails the request and ends the delay",
			err:    signer.Permanent("Bad", errors.New("no good")),
			want: certificatesv1.CertificateSigningRequestStatus{Conditions: []condition{
				{Type: "Approved"},
				{Type: "Failed", Status: "True", Reason: "Bad", Message: "no good", LastUpdateTime: metav1.NewTime(now)},
			}},
		},
		{
			reason: "a pending verdict delays it",
			err:    unavailable,
			want: certificatesv1.CertificateSigningRequestStatus{Conditions: []condition{
				{Type: "Approved"},
				{
					Type: "SigningDelayed", Status: "True", Reason: "SignerUnavailable",
					Message: "the signer cannot sign at present; it keeps trying", LastUpdateTime: metav1.NewTime(now),
				},
			}},
			retry: true,
		},
		{
			reason: "what is no verdict says nothing about the request",
			err:    errors.New("disk on fire"),
			want: certificatesv1.CertificateSigningRequestStatus{Conditions: []condition{
				{Type: "Approved"},
				{
					Type: "SigningDelayed", Status: "True", Reason: "SignerUnavailable",
					Message: "the signer cannot sign at present; it keeps trying", LastUpdateTime: metav1.NewTime(now),
				},
			}},
			retry: true,
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			before := &csr{Status: certificatesv1.CertificateSigningRequestStatus{
				Conditions: []condition{{Type: "Approved"}, {Type: ConditionDelayed, Reason: "Old"}},
			}}
			unchanged := before.DeepCopy()
			o := decide(tc.issued, tc.err, now)
			after := o.apply(before)
			if diff := cmp.Diff(tc.want, after.Status); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if (o.retry != nil) != tc.retry {
				t.Errorf("retry is %v, want %v", o.retry, tc.retry)
			}
			if diff := cmp.Diff(unchanged, before); diff != "" {
				t.Errorf("the cached object was changed:\n%s", diff)
			}
			if o.on(before) || !o.on(after) {
				t.Errorf("seen before: %v, seen after: %v", o.on(before), o.on(after))
			}
		})
	}
}

func TestMessagesArePresentable(t *testing.T) {
	long := strings.Repeat("ö", maxMessage)
	o := decide(nil, signer.Permanent("Bad", errors.New("\xff"+long)), now)
	got := o.condition.Message
	if len(got) > maxMessage+3 || !utf8.ValidString(got) || !strings.HasSuffix(got, "ö...") {
		t.Errorf("message of %d bytes: %q", len(got), got)
	}
}

func TestRequest(t *testing.T) {
	seconds := int32(600)
	want := 10 * time.Minute
	c := &csr{Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: []byte("pem"), Usages: []certificatesv1.KeyUsage{"any"}, ExpirationSeconds: &seconds,
	}}
	if diff := cmp.Diff(signer.Request{PEM: []byte("pem"), Usages: []certificatesv1.KeyUsage{"any"}, Duration: &want}, request(c)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	c.Spec.ExpirationSeconds = nil
	if got := request(c).Duration; got != nil {
		t.Errorf("duration of a request that asks for none is %v", *got)
	}
}
