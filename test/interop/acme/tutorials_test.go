package acme

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cert-manager/cert-manager/pkg/acme/webhook/apis/acme/v1alpha1"
	apiutil "github.com/cert-manager/cert-manager/pkg/api/util"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/miekg/dns"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	dnswebhook "github.com/certplane/certplane/internal/acme/solver/dns/webhook"
	"github.com/certplane/certplane/internal/run/server"
)

const (
	staging = "https://acme-staging-v02.api.letsencrypt.org/directory"
	// tsigName and tsigSecret are the key of the zones in the tutorials.
	tsigName, tsigSecret = "example-com-secret.", "c2VjcmV0IG9mIHRoZSB6b25l"
)

// Manifests of the shape of those in cert-manager's documentation become ready
// as they are: only the address of the ACME server and the roots that it is
// verified with are changed, and the example of a name server's address.
func TestTutorials(t *testing.T) {
	const soa = " 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60"
	for _, test := range []struct {
		file, certificate string
		names             []string
	}{
		{"http-validation.yaml", "example-com", []string{"example.com", "www.example.com"}},
		{"cluster-issuer.yaml", "quickstart-example-tls", []string{"www.example.com"}},
		{"rfc2136.yaml", "example-com", []string{"*.example.com", "example.com", "example.org"}},
		{"webhook.yaml", "example-com", []string{"*.test.example.com", "example.org", "test.example.com"}},
	} {
		t.Run(test.file, func(t *testing.T) {
			names := dnstest.Start(t, dnstest.Options{Keys: map[string]dnstest.Key{tsigName: {Algorithm: dns.HmacSHA512, Secret: tsigSecret}}},
				"example.com."+soa, "example.org."+soa,
				"example.com. 300 IN A 127.0.0.1", "www.example.com. 300 IN A 127.0.0.1", "example.org. 300 IN A 127.0.0.1")
			hook := startWebhook(t, names)
			w := newWorld(t, pebbleOptions{resolver: names.Addr, profiles: map[string]ca.Profile{"default": {}, "tlsserver": {Description: "For TLS servers"}}}, func(cfg *server.Config) {
				cfg.ACME.DNS01.RecursiveNameservers = []string{names.Addr}
				cfg.ACME.DNS01.RecursiveNameserversOnly = true
				cfg.ACME.DNS01.PropagationDelay = &metav1.Duration{}
				cfg.ACME.DNS01.Webhooks = []dnswebhook.Settings{hook.settings}
			})
			w.apply(w.ours(test.file, names))
			cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: test.certificate}}
			w.reaches(cert, 1)
			leaf := w.leaf(cert)
			if got := slices.Sorted(slices.Values(leaf.DNSNames)); !slices.Equal(got, test.names) {
				t.Errorf("the certificate is for %q", got)
			}
			w.leftovers()
			for _, zone := range []string{"example.com.", "example.org.", "test.example.com."} {
				if left := names.TXT("_acme-challenge." + zone); len(left) > 0 {
					t.Errorf("records are left: %q", left)
				}
			}
			hook.check(t, test.file == "webhook.yaml")
		})
	}
}

// A common name that is not among the other names is refused, by both programs
// with the same words.
func TestCommonName(t *testing.T) {
	w := newWorld(t, pebbleOptions{}, func(cfg *server.Config) { cfg.Controllers = noCertManager })
	w.apply(ingresses)
	w.createIssuer("acme", byHTTP)
	var said []string
	for _, program := range []program{certManager, standalone} {
		cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}}
		cert.Spec = cmv1.CertificateSpec{
			SecretName: "web-tls", IssuerRef: cmmeta.IssuerReference{Name: "acme"}, CommonName: "example.com", DNSNames: []string{"www.example.com"},
		}
		w.create(cert)
		stop := program.run(w, all(orders, challenges)...)
		request := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: cert.Namespace, Name: "web-1"}}
		var condition *cmv1.CertificateRequestCondition
		eventually(t, "the request is refused by "+program.name, func() bool {
			if w.admin.Get(t.Context(), client.ObjectKeyFromObject(request), request) != nil {
				return false
			}
			condition = apiutil.GetCertificateRequestCondition(request, cmv1.CertificateRequestConditionReady)
			return condition != nil && condition.Reason == cmv1.CertificateRequestReasonFailed
		})
		said = append(said, condition.Message)
		stop()
		if err := w.admin.Delete(t.Context(), cert); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the request is gone", func() bool {
			return apierrors.IsNotFound(w.admin.Get(t.Context(), client.ObjectKeyFromObject(request), request))
		})
	}
	if said[0] != said[1] {
		t.Errorf("certplane says %q, cert-manager %q", said[1], said[0])
	}
}

// ours returns the manifests of a file with our addresses.
func (w *world) ours(file string, names *dnstest.Server) string {
	w.t.Helper()
	manifests, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		w.t.Fatal(err)
	}
	if strings.Count(string(manifests), staging) != 1 {
		w.t.Fatalf("%s has another ACME server", file)
	}
	return strings.NewReplacer(
		"server: "+staging, "server: "+w.acme.directory+"\n    caBundle: "+base64.StdEncoding.EncodeToString(w.acme.bundle),
		"1.2.3.4:53", names.Addr,
	).Replace(string(manifests))
}

// webhook is a solver of the group and the name in the tutorial, which writes
// to the DNS server.
type webhook struct {
	settings dnswebhook.Settings

	mu    sync.Mutex // guards calls
	calls []v1alpha1.ChallengeRequest
}

func startWebhook(t *testing.T, names *dnstest.Server) *webhook {
	t.Helper()
	const token = "token-of-the-caller"
	hook := &webhook{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/acme.mycompany.com/v1alpha1/my-dns-provider", func(w http.ResponseWriter, r *http.Request) {
		var payload v1alpha1.ChallengePayload
		err := json.NewDecoder(r.Body).Decode(&payload)
		if err != nil || payload.Request == nil || r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "refused", http.StatusForbidden)
			return
		}
		hook.mu.Lock()
		hook.calls = append(hook.calls, *payload.Request)
		hook.mu.Unlock()
		answer := v1alpha1.ChallengePayload{Response: &v1alpha1.ChallengeResponse{UID: payload.Request.UID, Success: true}}
		if err := write(names, payload.Request); err != nil {
			answer.Response.Success, answer.Response.Result = false, &metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(answer)
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	hook.settings = dnswebhook.Settings{
		GroupName: "acme.mycompany.com", URL: server.URL, CAFile: filepath.Join(dir, "ca.crt"), TokenFile: filepath.Join(dir, "token"),
	}
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for path, content := range map[string][]byte{hook.settings.CAFile: root, hook.settings.TokenFile: []byte(token)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return hook
}

// write adds or removes a record.
func write(names *dnstest.Server, request *v1alpha1.ChallengeRequest) error {
	record := &dns.TXT{Hdr: dns.RR_Header{Name: request.ResolvedFQDN, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60}, Txt: []string{request.Key}}
	update := new(dns.Msg).SetUpdate(request.ResolvedZone)
	if request.Action == v1alpha1.ChallengeActionPresent {
		update.Insert([]dns.RR{record})
	} else {
		update.Remove([]dns.RR{record})
	}
	update.SetTsig(tsigName, dns.HmacSHA512, 300, 0)
	client := &dns.Client{Net: "tcp", TsigSecret: map[string]string{tsigName: tsigSecret}}
	_, _, err := client.Exchange(update, names.Addr)
	return err
}

// check fails the test unless the webhook was called for both names of its zone,
// or was not called.
func (h *webhook) check(t *testing.T, called bool) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	count := map[v1alpha1.ChallengeAction]int{}
	for _, call := range h.calls {
		count[call.Action]++
		if call.DNSName != "test.example.com" || call.Config == nil || !strings.Contains(string(call.Config.Raw), `"retries":3`) {
			t.Errorf("the webhook was asked %+v", call)
		}
	}
	if called && (count[v1alpha1.ChallengeActionPresent] < 2 || count[v1alpha1.ChallengeActionCleanUp] < 2) || !called && len(count) > 0 {
		t.Errorf("the webhook was called %v", count)
	}
}
