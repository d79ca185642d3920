package venafi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/venafi/internal/signer/venafi"
)

const dn = `\VED\Policy\Certificates\web\web.example.com`

// both is a request of each kind, with what becomes of it.
func (w *world) both(t *testing.T, annotations, annotationsOfCSR map[string]string) []client.Object {
	return []client.Object{w.certificateRequest(t, "web", "web.example.com", annotations), w.signingRequest(t, "web", "web.example.com", annotationsOfCSR)}
}

// What becomes of requests when something goes wrong before the certificate is
// ordered, or when it is.
func TestOrderOutcomes(t *testing.T) {
	fails := func(err error) func(*world) {
		return func(w *world) { w.request = func(venafi.Order) (string, error) { return "", err } }
	}
	fields := func(text string) func(annotation string) map[string]string {
		return func(annotation string) map[string]string { return map[string]string{annotation: text} }
	}
	tests := []struct {
		reason      string
		issuer      func(*cmv1.Issuer)
		before      func(*world)
		annotations func(annotation string) map[string]string
		cr, csr     string
	}{
		{reason: "it is accepted", cr: "Pending IssuancePending certificate is requested (2s)"},
		{
			reason: "no Secret", issuer: func(i *cmv1.Issuer) { i.Spec.Venafi.TPP.CredentialsRef.Name = "none" },
			cr:  `Watched SecretMissing Required secret resource not found: secrets "none" not found`,
			csr: `Watched SecretNotFound Required secret resource not found: secrets "none" not found`,
		},
		{
			reason: "no client", before: fails(&venafi.InitError{Err: errors.New("no"), Refused: true}),
			cr:  "Pending VenafiInitError Failed to initialise Certificate Manager client for signing: no",
			csr: "Pending ErrorVenafiInit Failed to initialise Certificate Manager client for signing: no",
		},
		{
			reason: "the request is refused", before: fails(errors.New("no")),
			cr:  "Failed RequestError Failed to request certificate from Certificate Manager: no",
			csr: "Failed ErrorRequest Failed to request Certificate Manager certificate: no",
		},
		{
			reason: "the server does not answer", before: fails(&venafi.UnavailableError{Err: errors.New("no answer")}),
			cr: "Pending VenafiUnavailable Certificate Manager cannot answer at present; it keeps trying: no answer",
		},
		{
			reason: "the custom fields are not JSON", annotations: fields("{"),
			cr:  `Failed CustomFieldsError Failed to parse web "venafi.cert-manager.io/custom-fields" annotation: unexpected end of JSON input`,
			csr: `Failed ErrorCustomFields Failed to parse "venafi.experimental.cert-manager.io/custom-fields" annotation: unexpected end of JSON input`,
		},
		{
			reason: "the type of a custom field is not known", annotations: fields(`[{"name": "a", "value": "b", "type": "X"}]`),
			cr: `Failed CustomFieldsError certificate request contains an invalid custom fields type: "X": ` +
				`certificate request contains an invalid custom fields type: "X"`,
			csr: `Failed ErrorCustomFields certificate request contains an invalid custom fields type: "X"`,
		},
		{
			reason: "no zone any more", issuer: func(i *cmv1.Issuer) { i.Spec.Venafi.Zone = "" },
			cr:  "Watched VenafiInitError Failed to initialise Certificate Manager client for signing: spec.venafi.zone is empty",
			csr: "Watched ErrorVenafiInit Failed to initialise Certificate Manager client for signing: spec.venafi.zone is empty",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if tc.csr == "" {
				tc.csr = tc.cr
			}
			if tc.annotations == nil {
				tc.annotations = func(string) map[string]string { return nil }
			}
			for i, want := range []string{tc.cr, tc.csr} {
				w := newWorld(t)
				if tc.before != nil {
					tc.before(w)
				}
				req := w.both(t, tc.annotations(annotationFields), tc.annotations(annotationFieldsOfCSR))[i]
				if _, err := w.try(t, issuer(tc.issuer), req); verdict(err) != want {
					t.Errorf("%s\nwant %s", verdict(err), want)
				}
			}
		})
	}
}

// What becomes of requests whose certificate is ordered.
func TestRetrieveOutcomes(t *testing.T) {
	gives := func(give func(*world, venafi.Order) ([]byte, error)) func(*world) {
		return func(w *world) {
			w.retrieve = func(_ string, o venafi.Order) ([]byte, error) { return give(w, o) }
		}
	}
	fails := func(err error) func(*world) {
		return gives(func(*world, venafi.Order) ([]byte, error) { return nil, err })
	}
	tests := []struct {
		reason  string
		before  func(*world)
		cr, csr string
	}{
		{reason: "it is there", before: func(*world) {}, cr: "Issued"},
		{
			reason: "not yet", before: fails(&venafi.PendingError{Text: "Issuance is pending"}),
			cr:  "Pending IssuancePending certificate still in a pending state, the request will be retried: Issuance is pending (2s)",
			csr: "Pending IssuancePending certificate still in a pending state, waiting (2s)",
		},
		{
			reason: "refused", before: fails(errors.New("it has failed")),
			cr:  "Failed RetrieveError Failed to obtain certificate from Certificate Manager: it has failed",
			csr: "Failed ErrorRetrieve Failed to obtain Certificate Manager certificate: it has failed",
		},
		{
			reason: "no answer", before: fails(&venafi.UnavailableError{Err: errors.New("down")}),
			cr: "Pending VenafiUnavailable Certificate Manager cannot answer at present; it keeps trying: down",
		},
		{
			reason: "no certificate", before: gives(func(*world, venafi.Order) ([]byte, error) { return []byte("text"), nil }),
			cr:  "Failed ParseError Failed to parse returned certificate bundle: ",
			csr: "Failed ErrorParse Failed to parse returned certificate bundle: ",
		},
		{
			reason: "no chain", before: gives(func(w *world, o venafi.Order) ([]byte, error) {
				chain, err := w.sign(o)
				return append(chain, pki.EncodeCertificates(w.ca.OtherRoot)...), err
			}),
			cr:  "Failed ParseError Failed to parse returned certificate bundle: ",
			csr: "Failed ErrorParse Failed to parse returned certificate bundle: ",
		},
		{
			reason: "the certificate of another key", before: gives(func(w *world, o venafi.Order) ([]byte, error) {
				o.PEM = pkcs10(t, "web.example.com")
				return w.sign(o)
			}),
			cr:  "Failed RetrieveError Failed to obtain certificate from Certificate Manager: the server returned a certificate that is not the requested one: certificate is for another key than the request",
			csr: "Failed ErrorRetrieve Failed to obtain Certificate Manager certificate: the server returned a certificate that is not the requested one: certificate is for another key than the request",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if tc.csr == "" {
				tc.csr = tc.cr
			}
			for i, want := range []string{tc.cr, tc.csr} {
				w := newWorld(t)
				tc.before(w)
				req := w.both(t, map[string]string{annotationPickup: dn}, map[string]string{annotationPickupOfCSR: dn})[i]
				_, err := w.try(t, issuer(nil), req)
				if got := verdict(err); got != want && !(strings.HasSuffix(want, ": ") && strings.HasPrefix(got, want)) {
					t.Errorf("%s\nwant %s", got, want)
				}
				if !slices.Equal(w.retrieved, []string{dn}) || len(w.requests) > 0 {
					t.Errorf("retrieved %q, %d requests", w.retrieved, len(w.requests))
				}
			}
		})
	}
}

// Certificates with more than was requested are refused, with less issued with a
// warning.
func TestCertificateDiffers(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		reason string
		change func(*venafi.Order)
		want   string
	}{
		{"another name", func(o *venafi.Order) { o.Duration = -time.Hour }, "has expired"},
		{"shorter", func(o *venafi.Order) { o.Duration = time.Hour }, "CertificateShortened The certificate ends on "},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w.retrieve = func(_ string, o venafi.Order) ([]byte, error) {
				tc.change(&o)
				return w.sign(o)
			}
			cr := w.certificateRequest(t, "r"+fmt.Sprint(len(w.retrieved)), "web.example.com", map[string]string{annotationPickup: dn})
			issued, err := w.try(t, issuer(nil), cr)
			got := verdict(err)
			if issued != nil {
				for _, warning := range issued.Warnings {
					got += " " + warning.Reason + " " + warning.Message
				}
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// The identifier is stored before anything else, once, whatever happens to the
// request meanwhile; the certificate is ordered once.
func TestPickup(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "certificaterequests"}, "web", errors.New("changed"))
	tests := []struct {
		reason string
		patch  func(w *world, n int, o client.Object) (bool, error)
		after  []string
		id     string
	}{
		{reason: "nothing happens", after: []string{"Pending IssuancePending", "Issued"}, id: dn},
		{
			reason: "another client changes the request", id: dn,
			patch: func(_ *world, n int, _ client.Object) (bool, error) { return n < 3, conflict },
			after: []string{"Pending IssuancePending", "Issued"},
		},
		{
			reason: "the API is away for a while", id: dn,
			patch: func(_ *world, n int, _ client.Object) (bool, error) { return n < 2, errors.New("no API") },
			after: []string{"Pending SignerUnavailable", "Pending SignerUnavailable", "Pending IssuancePending", "Issued"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			patches := 0
			w.patch = func(o client.Object) (bool, error) {
				defer func() { patches++ }()
				if tc.patch == nil {
					return false, nil
				}
				return tc.patch(w, patches, o)
			}
			cr := w.certificateRequest(t, "web", "web.example.com", nil)
			for i, want := range tc.after {
				_, err := w.try(t, issuer(nil), cr)
				if !strings.HasPrefix(verdict(err), want) {
					t.Fatalf("attempt %d: %s, want %s", i, verdict(err), want)
				}
			}
			if len(w.requests) != 1 || cr.Annotations[annotationPickup] != tc.id {
				t.Errorf("%d requests, id %q", len(w.requests), cr.Annotations[annotationPickup])
			}
		})
	}
}

// An attempt with an old copy of the request does not order again, nor does one of
// a new process.
func TestOrderedOnce(t *testing.T) {
	w := newWorld(t)
	cr := w.certificateRequest(t, "web", "web.example.com", nil)
	old := cr.DeepCopy()
	if _, err := w.try(t, issuer(nil), cr); !strings.Contains(verdict(err), "certificate is requested") {
		t.Fatal(verdict(err))
	}
	if _, err := w.stale(t, issuer(nil), old); !strings.Contains(verdict(err), "certificate is requested") {
		t.Fatal(verdict(err))
	}
	w.restart()
	if _, err := w.stale(t, issuer(nil), old); !strings.Contains(verdict(err), "certificate is requested") {
		t.Fatal(verdict(err))
	}
	if _, err := w.try(t, issuer(nil), cr); err != nil {
		t.Fatal(verdict(err))
	}
	if len(w.requests) != 1 {
		t.Errorf("%d requests", len(w.requests))
	}
}

// Attempts to retrieve a certificate come after growing pauses, however often the
// request changes.
func TestPolling(t *testing.T) {
	w := newWorld(t)
	w.retrieve = func(string, venafi.Order) ([]byte, error) { return nil, &venafi.PendingError{Text: "not yet"} }
	cr := w.certificateRequest(t, "web", "web.example.com", map[string]string{annotationPickup: dn})
	for i, pause := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		for range 3 {
			if _, err := w.try(t, issuer(nil), cr); !strings.HasSuffix(verdict(err), fmt.Sprintf("not yet (%v)", pause*time.Second)) {
				t.Fatalf("attempt %d: %s", i, verdict(err))
			}
		}
		if len(w.retrieved) != i+1 {
			t.Fatalf("%d calls after %d pauses", len(w.retrieved), i)
		}
		w.clock.Step(pause * time.Second)
	}
}

// Requests for one object on a server take turns, until each has its certificate.
func TestTurns(t *testing.T) {
	w := newWorld(t)
	var told []string
	defer w.shared.Changes(func(r issuing.Reference) { told = append(told, r.Name) })()
	first := w.certificateRequest(t, "first", "web.example.com", nil)
	second := w.signingRequest(t, "second", "WEB.example.com", nil)
	third := w.certificateRequest(t, "third", "web.example.com", nil)
	other := w.certificateRequest(t, "other", "other.example.com", nil)
	attempt := func(object client.Object, want string) {
		t.Helper()
		if _, err := w.try(t, issuer(nil), object); !strings.HasPrefix(verdict(err), want) {
			t.Fatalf("%s: %s, want %s", object.GetName(), verdict(err), want)
		}
	}
	const waits = `Pending IssuancePending waiting for another request for the object "web.example.com" in the zone "Certificates\\web" (1m0s)`
	attempt(first, "Pending IssuancePending certificate is requested")
	attempt(second, waits)
	attempt(third, waits)
	attempt(other, "Pending IssuancePending certificate is requested")
	attempt(first, "Issued")
	if want := []string{"uid-csr-second"}; !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
	attempt(third, waits)
	attempt(second, "Pending IssuancePending certificate is requested")
	w.request = func(venafi.Order) (string, error) { return "", errors.New("no") }
	w.clock.Step(turnTime + time.Second) // the second was deleted
	attempt(third, "Failed RequestError")
	if len(w.requests) != 4 {
		t.Errorf("%d requests", len(w.requests))
	}
	if len(w.shared.turns.places) > 1 || len(w.shared.turns.queues) > 1 { // other has its turn still
		t.Errorf("kept %v", w.shared.turns.places)
	}
}

func TestReady(t *testing.T) {
	tests := []struct {
		reason string
		change func(*cmv1.Issuer)
		err    error
		want   string
	}{
		{reason: "well", want: "true Certificate Manager issuer started Certificate Manager issuer started"},
		{reason: "refused", err: &venafi.InitError{Err: errors.New("401"), Refused: true}, want: "false AuthFailed OAuth token request failed: 401"},
		{reason: "no client", err: &venafi.InitError{Err: errors.New("no")}, want: "false ErrorSetup Failed to setup Certificate Manager issuer: error building client: no"},
		{reason: "no answer", err: errors.New("503"), want: "false ErrorSetup Failed to setup Certificate Manager issuer: error pinging Certificate Manager: 503"},
		{reason: "no product", change: func(i *cmv1.Issuer) { i.Spec.Venafi.TPP = nil },
			want: "false ErrorSetup Failed to setup Certificate Manager issuer: error building client: neither Venafi Cloud, TPP, or NGTS configuration found"},
		{reason: "custom fields that fail each request", change: func(i *cmv1.Issuer) { i.Annotations = map[string]string{annotationFields: "x"} },
			want: `false ErrorSetup Failed to setup Certificate Manager issuer: Failed to parse corp "venafi.cert-manager.io/custom-fields" annotation: invalid character 'x' looking for beginning of value`},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.verify = tc.err
			ready, err := w.Check(t.Context(), issuer(tc.change), w.clock.Now())
			if got := fmt.Sprint(ready.OK, " ", ready.Reason, " ", ready.Message); err != nil || got != tc.want || (ready.Retry != nil) != (tc.err != nil) {
				t.Errorf("%v, %s, retry %v\nwant %s", err, got, ready.Retry, tc.want)
			}
			if ready.OK && (ready.EventReason != "Ready" || ready.EventMessage != "Verified issuer with Certificate Manager server" || ready.Notice == "") {
				t.Errorf("event %s %s, notice %s", ready.EventReason, ready.EventMessage, ready.Notice)
			}
		})
	}
}

func TestFields(t *testing.T) {
	w := newWorld(t)
	by := issuer(func(i *cmv1.Issuer) {
		i.Annotations = map[string]string{annotationFields: `[{"name": "b", "value": "issuer"}, {"name": "a", "value": "issuer", "type": "Plain"}]`}
	})
	for _, req := range w.both(t,
		map[string]string{annotationFields: `[{"name": "b", "value": "request"}]`}, map[string]string{annotationFieldsOfCSR: `[{"name": "b", "value": "request"}]`}) {
		_, _ = w.try(t, by, req)
		w.shared.turns.leave(string(req.GetUID()))
	}
	ofCR := []venafi.CustomField{{Name: "a", Value: "issuer"}, {Name: "b", Value: "request"}}
	if len(w.requests) != 2 || !slices.Equal(w.requests[0].Fields, ofCR) || !slices.Equal(w.requests[1].Fields, ofCR[1:]) {
		t.Errorf("fields %v", w.requests)
	}
}
