package venafi_test

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/run/server"
	"github.com/certplane/certplane/venafi/internal/issuing/venafi"
	"github.com/certplane/certplane/venafi/internal/signer/venafi/venafitest"
)

const (
	annotationPickup    = "venafi.cert-manager.io/pickup-id"
	annotationPickupCSR = "venafi.experimental.cert-manager.io/pickup-id"
	annotationFields    = "venafi.cert-manager.io/custom-fields"
	zone                = `Certificates\web`
)

// world is a real API server with its controllers, and a stand-in for TPP.
type world struct {
	*apitest.Server
	tpp   *venafitest.Server
	admin client.Client
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{Server: apitest.Start(t, func(cfg *server.Config) {
		cfg.CertManager.Venafi.AllowLoopback, cfg.OpenIssuers = true, []controllermanager.OpenIssuers{venafi.Open}
	}), tpp: venafitest.Start(t)}
	w.connect(t)
	w.create(t, secret("tpp", map[string]string{"username": venafitest.User, "password": venafitest.Password}), w.issuer("corp", nil))
	return w
}

func (w *world) connect(t *testing.T) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, certmanager.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	everywhere, err := client.New(w.Admin(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w.admin = client.NewNamespacedClient(everywhere, "default")
}

func (w *world) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := w.admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
}

func secret(name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
}

func (w *world) issuer(name string, change func(*cmv1.Issuer)) *cmv1.Issuer {
	i := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Name: name}}
	i.Spec.Venafi = &cmv1.VenafiIssuer{Zone: zone, TPP: &cmv1.VenafiTPP{
		URL: w.tpp.URL + "/vedsdk", CredentialsRef: cmmeta.LocalObjectReference{Name: "tpp"}, CABundle: w.tpp.Bundle(),
	}}
	if change != nil {
		change(i)
	}
	return i
}

func (w *world) request(t *testing.T, name, cn, issuer string, change func(*cmv1.CertificateRequest)) *cmv1.CertificateRequest {
	t.Helper()
	pem, err := pki.NewRequest(pki.Subject{CommonName: cn, DNSNames: []string{cn}}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	cr := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	cr.Spec.Request, cr.Spec.IssuerRef = pem, cmmeta.IssuerReference{Name: issuer}
	if change != nil {
		change(cr)
	}
	w.create(t, cr)
	return cr
}

// becomes waits until a request shows this state, and a message with this part.
func (w *world) becomes(t *testing.T, name, reason, part string) *cmv1.CertificateRequest {
	t.Helper()
	cr := &cmv1.CertificateRequest{}
	shows := ""
	defer func() {
		if t.Failed() {
			t.Logf("%s shows %s", name, shows)
		}
	}()
	apitest.Eventually(t, name+" is "+reason+" "+part, func() bool {
		if err := w.admin.Get(t.Context(), client.ObjectKey{Name: name}, cr); err != nil {
			t.Fatal(err)
		}
		ready := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady)
		if ready == nil {
			return false
		}
		shows = ready.Reason + " " + ready.Message
		return ready.Reason == reason && strings.Contains(ready.Message, part)
	})
	return cr
}

// holds reports an error unless a request has the certificate for its key.
func holds(t *testing.T, name string, chain, request []byte) *x509.Certificate {
	t.Helper()
	certs, err := pki.ParseCertificates(chain)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	csr, err := pki.ParseRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	if !pki.SameKey(certs[0].PublicKey, csr.PublicKey) {
		t.Errorf("%s has a certificate for another key", name)
	}
	return certs[0]
}

func (w *world) ready(t *testing.T, issuer, want string) {
	t.Helper()
	apitest.Eventually(t, issuer+" is "+want, func() bool {
		i := &cmv1.Issuer{}
		if err := w.admin.Get(t.Context(), client.ObjectKey{Name: issuer}, i); err != nil {
			t.Fatal(err)
		}
		ready := certmanager.IssuerCondition(i, cmv1.IssuerConditionReady)
		if ready == nil {
			return false
		}
		text := strings.ReplaceAll(fmt.Sprintf("%s %s %s", ready.Status, ready.Reason, ready.Message), w.tpp.URL, "SERVER")
		t.Log(text)
		return strings.Contains(text, want)
	})
}

// From a request to its certificate, in both flows.
func TestIssue(t *testing.T) {
	w := start(t)
	w.ready(t, "corp", "True Certificate Manager issuer started Certificate Manager issuer started")
	cr := w.request(t, "web", "web.example.com", "corp", func(cr *cmv1.CertificateRequest) {
		cr.Annotations = map[string]string{annotationFields: `[{"name": "team", "value": "a"}]`}
	})
	issued := w.becomes(t, "web", cmv1.CertificateRequestReasonIssued, "Certificate fetched from issuer successfully")
	leaf := holds(t, "web", issued.Status.Certificate, cr.Spec.Request)
	if certs, err := pki.ParseCertificates(issued.Status.Certificate); err != nil || len(certs) != 2 || len(issued.Status.CA) == 0 {
		t.Errorf("%d certificates, CA %q", len(certs), issued.Status.CA)
	}
	if life := time.Until(leaf.NotAfter); life < 89*24*time.Hour || life > 91*24*time.Hour {
		t.Errorf("lives %v", life)
	}
	if id := issued.Annotations[annotationPickup]; id != `\VED\Policy\`+zone+`\web.example.com` {
		t.Errorf("pick-up id %q", id)
	}
	sent := w.tpp.Calls("/certificates/request")
	if len(sent) != 1 {
		t.Fatalf("%d requests", len(sent))
	}
	for field, want := range map[string]string{
		"PolicyDN": `\VED\Policy\` + zone, "ObjectName": "web.example.com", "CertificateType": "AUTO", "DisableAutomaticRenewal": "true",
		"Reenable": "true", "Origin": "cert-manager", "PKCS10": string(cr.Spec.Request), "CustomFields": "[map[Name:team Values:[a]]]",
	} {
		if got := fmt.Sprint(sent[0].Body[field]); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	if got := len(w.tpp.Calls("/authorize/oauth")); got != 1 {
		t.Errorf("%d tokens for one issuer", got)
	}
	if got := len(w.tpp.Calls("/certificates/reset")); got != 1 {
		t.Errorf("%d resets", got)
	}

	clientset := apitest.Client(t, w.Admin(t))
	csr := apitest.NewCSR(t, "web", "issuers.cert-manager.io/default.corp", pki.Subject{CommonName: "csr.example.com"}, apitest.NewKey(t))
	created := apitest.Decide(t, clientset, apitest.Create(t, clientset, csr), certificatesv1.CertificateApproved)
	holds(t, "the CSR", apitest.Issued(t, clientset, created), csr.Spec.Request)
	stored, err := clientset.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || stored.Annotations[annotationPickupCSR] != `\VED\Policy\`+zone+`\csr.example.com` {
		t.Errorf("%v, annotations %v", err, stored.Annotations)
	}
}

// Requests with one common name are for one object on the server, which has the
// certificate of the last one.
func TestOneName(t *testing.T) {
	w := start(t)
	w.tpp.With(func(s *venafitest.State) { s.Pending = 1 })
	var all []*cmv1.CertificateRequest
	for i := range 10 {
		all = append(all, w.request(t, fmt.Sprintf("r%d", i), "one.example.com", "corp", nil))
	}
	for _, cr := range all {
		issued := w.becomes(t, cr.Name, cmv1.CertificateRequestReasonIssued, "")
		holds(t, cr.Name, issued.Status.Certificate, cr.Spec.Request)
	}
	if got := len(w.tpp.Calls("/certificates/request")); got != 10 {
		t.Errorf("%d requests to the server", got)
	}
}

// csr makes an approved CertificateSigningRequest.
func (w *world) csr(t *testing.T, name, cn string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	clientset := apitest.Client(t, w.Admin(t))
	csr := apitest.NewCSR(t, name, "issuers.cert-manager.io/default.corp", pki.Subject{CommonName: cn}, apitest.NewKey(t))
	return apitest.Decide(t, clientset, apitest.Create(t, clientset, csr), certificatesv1.CertificateApproved)
}

// says waits until a CertificateSigningRequest has a condition with this reason and
// a message with this part.
func (w *world) says(t *testing.T, name, kind, reason, part string) {
	t.Helper()
	clientset, shows := apitest.Client(t, w.Admin(t)), ""
	defer func() {
		if t.Failed() {
			t.Logf("%s shows %s", name, shows)
		}
	}()
	apitest.Eventually(t, name+" is "+kind+" "+reason, func() bool {
		csr, err := clientset.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range csr.Status.Conditions {
			shows += fmt.Sprintln(c.Type, c.Reason, c.Message)
			if string(c.Type) == kind && c.Reason == reason && strings.Contains(c.Message, part) {
				return true
			}
		}
		return false
	})
}

// told waits until there is an Event with this reason and a part of a text.
func (w *world) told(t *testing.T, name, reason, part string) {
	t.Helper()
	apitest.Eventually(t, "an Event "+reason+" about "+name, func() bool {
		list := &eventsv1.EventList{}
		if err := w.admin.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name && e.Reason == reason && strings.Contains(e.Note, part)
		})
	})
}

// answers has the stand-in answer calls about an object with a name.
func (w *world) answers(about map[string]func(http.ResponseWriter, venafitest.Call) bool) {
	w.tpp.With(func(s *venafitest.State) {
		s.Answer = func(rw http.ResponseWriter, c venafitest.Call) bool {
			for name, answer := range about {
				if c.Body["ObjectName"] == name || strings.HasSuffix(fmt.Sprint(c.Body["CertificateDN"]), `\`+name) {
					return answer(rw, c)
				}
			}
			return false
		}
	})
}

// What becomes of requests of both kinds, by the answers of the server.
func TestOutcomes(t *testing.T) {
	w := start(t)
	on := func(path string, answer func(http.ResponseWriter)) func(http.ResponseWriter, venafitest.Call) bool {
		return func(rw http.ResponseWriter, c venafitest.Call) bool {
			if !strings.HasSuffix(c.Path, path) {
				return false
			}
			answer(rw)
			return true
		}
	}
	status := func(status int, body any) func(http.ResponseWriter) {
		return func(rw http.ResponseWriter) { venafitest.Fail(rw, status, body) }
	}
	line := func(line, body string) func(http.ResponseWriter) {
		return func(rw http.ResponseWriter) { venafitest.Status(rw, line, body) }
	}
	other := w.foreign(t)
	w.answers(map[string]func(http.ResponseWriter, venafitest.Call) bool{
		"refused": on("/request", status(http.StatusBadRequest, map[string]any{"Error": "no such CA"})),
		"down":    on("/request", status(http.StatusServiceUnavailable, nil)),
		"html": on("/request", func(rw http.ResponseWriter) {
			rw.WriteHeader(http.StatusBadGateway)
			_, _ = rw.Write([]byte("<html>internal</html>"))
		}),
		"failed":  on("/retrieve", line("500 Certificate X has encountered an error while processing, Status: no CA, Stage: 500.", `{"Stage": 500, "Status": "no CA"}`)),
		"pending": on("/retrieve", line("202 being processed", `{"Stage": 500, "Status": "Pending Approval"}`)),
		"foreign": on("/retrieve", func(rw http.ResponseWriter) { venafitest.JSON(rw, map[string]any{"CertificateData": other}) }),
	})
	const failed, delayed = "Failed", "SigningDelayed"
	tests := []struct {
		name, cr, text              string
		csrKind, csrReason, csrText string
	}{
		{"refused", cmv1.CertificateRequestReasonFailed, "Failed to request certificate from Certificate Manager: Unexpected status code on TPP Certificate Request.",
			failed, "ErrorRequest", "Failed to request Certificate Manager certificate: "},
		{"down", cmv1.CertificateRequestReasonPending, "Certificate Manager cannot answer at present; it keeps trying: ", delayed, "VenafiUnavailable", "503 Service Unavailable"},
		{"html", cmv1.CertificateRequestReasonPending, "502 Bad Gateway. \n Body:\n {}", delayed, "VenafiUnavailable", "{}"},
		{"failed", cmv1.CertificateRequestReasonFailed, "Failed to obtain certificate from Certificate Manager: unable to retrieve: Unexpected status code on TPP Certificate Retrieval. Status: 500 Certificate X",
			failed, "ErrorRetrieve", "Failed to obtain Certificate Manager certificate: "},
		{"pending", cmv1.CertificateRequestReasonPending, "certificate still in a pending state, the request will be retried: Issuance is pending. ",
			delayed, "IssuancePending", "certificate still in a pending state, waiting"},
		{"foreign", cmv1.CertificateRequestReasonFailed, "Failed to obtain certificate from Certificate Manager: vcert error: your data contains problems: request doesn't match certificate: ",
			failed, "ErrorRetrieve", "request doesn't match certificate"},
	}
	for _, tc := range tests {
		w.request(t, tc.name, tc.name, "corp", nil)
	}
	for _, tc := range tests {
		w.becomes(t, tc.name, tc.cr, tc.text)
	}
	w.told(t, "refused", "RequestError", "no such CA")
	w.told(t, "failed", "RetrieveError", "no CA")
	w.told(t, "pending", "IssuancePending", "certificate is requested")
	w.told(t, "down", "VenafiUnavailable", "503")
	// Those of one name must be over before the other kind has its turn.
	for _, name := range []string{"down", "html", "pending"} {
		if err := w.admin.Delete(t.Context(), &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range tests {
		if tc.name == "pending" {
			continue // the deleted request keeps its turn for a while
		}
		w.csr(t, tc.name, tc.name)
	}
	for _, tc := range tests {
		if tc.name != "pending" {
			w.says(t, tc.name, tc.csrKind, tc.csrReason, tc.csrText)
		}
	}
	for _, text := range []string{"internal", venafitest.Password, "granted-token"} {
		list := &eventsv1.EventList{}
		if err := w.admin.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(list.Items, func(e eventsv1.Event) bool { return strings.Contains(e.Note, text) }); i >= 0 {
			t.Errorf("an Event shows %q: %s", text, list.Items[i].Note)
		}
	}

	// The Secret comes later: requests wait for it, in both flows.
	w.create(t, w.issuer("late", func(i *cmv1.Issuer) { i.Spec.Venafi.TPP.CredentialsRef.Name = "late" }))
	w.ready(t, "late", `False ErrorSetup Failed to setup Certificate Manager issuer: error building client: secrets "late" not found`)
	w.request(t, "late", "late.example.com", "late", nil)
	w.create(t, secret("late", map[string]string{"username": venafitest.User, "password": "wrong-password"}))
	w.ready(t, "late", "False AuthFailed OAuth token request failed: tppClient.GetRefreshToken: ")
	fixed := secret("late", map[string]string{"access-token": venafitest.AccessToken})
	if err := w.admin.Update(t.Context(), fixed); err != nil {
		t.Fatal(err)
	}
	w.becomes(t, "late", cmv1.CertificateRequestReasonIssued, "")
	w.told(t, "late", "Ready", "Verified issuer with Certificate Manager server")
	w.told(t, "late", "Notice", "certplane has never run against a real server")

	// The custom fields of a request are checked before anything is called.
	w.request(t, "fields", "fields.example.com", "corp", func(cr *cmv1.CertificateRequest) { cr.Annotations = map[string]string{annotationFields: "{"} })
	w.becomes(t, "fields", cmv1.CertificateRequestReasonFailed, `Failed to parse fields "venafi.cert-manager.io/custom-fields" annotation: `)
	w.told(t, "fields", "CustomFieldsError", "unexpected end of JSON input")
}

// foreign returns the certificate of another key, as the server encodes it.
func (w *world) foreign(t *testing.T) string {
	t.Helper()
	pem, err := pki.NewRequest(pki.Subject{CommonName: "foreign"}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	data, err := w.tpp.CA.Sign(string(pem), "24h")
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString([]byte(data["certificate"].(string) + strings.Join(data["ca_chain"].([]string), "")))
}

// A certificate that waits for a person on the server is retrieved by a new process;
// it is not ordered again. Requests that wait hold no worker.
func TestPending(t *testing.T) {
	w := start(t)
	w.tpp.With(func(s *venafitest.State) { s.Pending = 1 << 30 })
	const many = 20 // there are five workers
	for i := range many {
		w.request(t, fmt.Sprintf("p%d", i), fmt.Sprintf("p%d.example.com", i), "corp", nil)
	}
	for i := range many {
		w.becomes(t, fmt.Sprintf("p%d", i), cmv1.CertificateRequestReasonPending, "certificate still in a pending state")
	}
	self := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Name: "self"}}
	self.Spec.CA = &cmv1.CAIssuer{SecretName: "ca"}
	w.create(t, self, caSecret(t))
	w.request(t, "quick", "quick.example.com", "self", nil)
	w.becomes(t, "quick", cmv1.CertificateRequestReasonIssued, "")

	w.Restart(t)
	w.connect(t)
	w.tpp.With(func(s *venafitest.State) {
		s.Pending = 0
		s.Answer = nil
	})
	w.tpp.Finish()
	for i := range many {
		w.becomes(t, fmt.Sprintf("p%d", i), cmv1.CertificateRequestReasonIssued, "")
	}
	if got := len(w.tpp.Calls("/certificates/request")); got != many {
		t.Errorf("%d requests to the server for %d certificates", got, many)
	}
	if got := len(w.tpp.Calls("/revoke/token")); got == 0 {
		t.Error("the token of the first process was not revoked")
	}
}

func caSecret(t *testing.T) *corev1.Secret {
	t.Helper()
	key := apitest.NewKey(t)
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", key, 20000*time.Hour, time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "ca"}, Data: map[string][]byte{
		corev1.TLSPrivateKeyKey: encoded, corev1.TLSCertKey: pki.EncodeCertificates(root.Certificate()),
	}}
}
