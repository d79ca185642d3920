package console_test

import (
	"crypto/x509"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// connect returns a client for objects of cert-manager.io and of certplane.
func connect(t *testing.T, s *apitest.Server) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{cmv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(s.Admin(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rowsOf returns the texts of the rows of a page's first table with a column, without its header.
func rowsOf(t *testing.T, page, column string) (header []string, rows [][]string) {
	t.Helper()
	for _, table := range elements(parse(t, page), "table") {
		header, rows = nil, nil
		for _, r := range elements(table, "tr") {
			var cells []string
			for _, c := range elements(r, "th", "td") {
				cells = append(cells, strings.TrimSpace(text(c)))
			}
			if header == nil {
				header = cells
				continue
			}
			rows = append(rows, cells)
		}
		for _, name := range header {
			if name == column {
				return header, rows
			}
		}
	}
	return nil, nil
}

// The start page counts what the user may read, and leads to it.
func TestStart(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	submit(t, admin, "counted")
	b := open(t, s, s.Login(t, "starter", "system:masters"))
	page, code := b.get(t, "")
	if code != http.StatusOK {
		t.Errorf("%d", code)
	}
	wants(t, page, "<h1>Start</h1>", "requests wait for you", "certificates end within 7 days", "issuers and signers are not ready", "hosts are silent",
		`href="/console/issued?expiring=14d&amp;after=7d"`)
	if header, rows := rowsOf(t, page, "Week from"); len(rows) != 13 || len(header) != 3 {
		t.Errorf("%d weeks below %q", len(rows), header)
	}
	if strings.Contains(page, `<strong class="good">0</strong> requests wait`) {
		t.Error("no request waits")
	}
	token, user := tokenOf(t, admin, "starter")
	s.Grant(t, user, apitest.Allow("list", "certificatesigningrequests"))
	guest := open(t, s, s.Anonymous(t))
	page, _ = guest.post(t, "login", url.Values{"token": {token}})
	wants(t, page, `<strong class="good">0</strong> requests wait for you`)
	for _, hidden := range []string{"within 7 days", "not ready", "silent", "Week from"} {
		if strings.Contains(page, hidden) {
			t.Errorf("%q is on the page of a user who may not read it", hidden)
		}
	}
}

// The start page is read often: it counts at most maxCounted of the requests that wait, and
// must not cost more the more there are.
func BenchmarkStart(b *testing.B) {
	s := apitest.Start(b)
	admin := apitest.Client(b, s.Admin(b))
	key, made := apitest.NewKey(b), 0
	page := open(b, s, s.Login(b, "starter", "system:masters"))
	for _, count := range []int{0, 100, 1000} {
		for ; made < count; made++ {
			name := fmt.Sprintf("waiting-%04d", made)
			apitest.Create(b, admin, apitest.NewCSR(b, name, "example.com/waiting", pki.Subject{CommonName: name}, key))
		}
		b.Run(fmt.Sprintf("%d waiting", count), func(b *testing.B) {
			for b.Loop() {
				if text, code := page.get(b, "start"); code != http.StatusOK || !strings.Contains(text, "requests wait for you") {
					b.Fatal(code, text)
				}
			}
		})
	}
}

// Certificates are found by their parts, those without a certificate and the first to end
// in front.
func TestCertificates(t *testing.T) {
	s := shared.Start(t)
	c := connect(t, s)
	issuer := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Name: "itself", Namespace: "default"}}
	issuer.Spec.SelfSigned = &cmv1.SelfSignedIssuer{}
	if err := c.Create(t.Context(), issuer); err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for name, life := range map[string]time.Duration{"late": 60 * day, "early": 5 * day, "never": day} {
		certificate := &cmv1.Certificate{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec: cmv1.CertificateSpec{
				DNSNames: []string{name + ".shop.example.com"}, SecretName: name + "-tls", Duration: &metav1.Duration{Duration: life},
				IssuerRef: cmmeta.IssuerReference{Name: "itself"},
			},
		}
		if name == "never" {
			certificate.Spec.IssuerRef.Name = "not-itself"
		}
		if err := c.Create(t.Context(), certificate); err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, name+" is issued", func() bool {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(certificate), certificate); err != nil {
				t.Fatal(err)
			}
			return certificate.Status.NotAfter != nil || name == "never"
		})
	}
	b := open(t, s, s.Login(t, "seeker", "system:masters"))
	for query, want := range map[string]string{
		"": "never early late", "?search=EARLY.shop": "early", "?search=late-tls": "late", "?search=ISSUER+it": "early late", "?expiring=7d": "early", "?search=nosuch": "",
	} {
		page, _ := b.get(t, "certificates"+query)
		_, rows := rowsOf(t, page, "Certificate")
		var names []string
		for _, r := range rows {
			names = append(names, r[0])
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
	}
	page, _ := b.get(t, "certificates?search=early")
	wants(t, page, `data-column="Renewal">in `, `data-column="In">4d`)
}

// The roots of a signer can be saved as a file.
func TestRootsFile(t *testing.T) {
	s := shared.Start(t)
	b := open(t, s, s.Login(t, "saver", "system:masters"))
	var link string
	apitest.Eventually(t, "roots are published", func() bool {
		page, _ := b.get(t, "trust")
		for _, a := range elements(elements(parse(t, page), "main")[0], "a") {
			if text(a) == "PEM" {
				link = attribute(a, "href")
			}
		}
		return link != ""
	})
	answer, err := b.Get(b.base + strings.TrimPrefix(link, "/console/"))
	if err != nil {
		t.Fatal(err)
	}
	file, code := read(t, answer, nil)
	roots, err := pki.ParseCertificates([]byte(file))
	if code != http.StatusOK || err != nil || len(roots) == 0 || !roots[0].IsCA {
		t.Fatalf("%s: %d, %v\n%s", link, code, err, file)
	}
	if named := answer.Header.Get("Content-Disposition"); !strings.HasPrefix(named, "attachment; filename=") || !strings.HasSuffix(named, "-roots.pem") {
		t.Errorf("the file is %q", named)
	}
	page, _ := b.get(t, "trust")
	wants(t, page, `<span class="digits copy">`+pki.Fingerprint(roots[0])+`</span>`)
}

// A certificate can be saved while its request has it, and what a search finds as a table.
func TestRecordFiles(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	const signer = certificatesv1.KubeAPIServerClientSignerName
	csr := apitest.Create(t, admin, apitest.NewCSR(t, "saved", signer, pki.Subject{CommonName: "=saved"}, apitest.NewKey(t)))
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Tested"}}
	csr, err := admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "it is issued", func() bool {
		csr, err = admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "saved", metav1.GetOptions{})
		return err == nil && len(csr.Status.Certificate) > 0
	})
	issued, err := pki.ParseCertificates(csr.Status.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, s, s.Login(t, "keeper", "system:masters"))
	found := "issued?" + url.Values{"serial": {issued[0].SerialNumber.Text(16)}}.Encode()
	page, _ := b.get(t, found)
	_, rows := rowsOf(t, page, "Serial number")
	if len(rows) != 1 {
		t.Fatalf("%d certificates:\n%s", len(rows), page)
	}
	record := attribute(elements(elements(parse(t, page), "tbody")[0], "a")[0], "href")
	record = strings.TrimPrefix(record, "/console/")
	page, _ = b.get(t, record)
	wants(t, page, "all of this requester", "requester="+url.QueryEscape(csr.Spec.Username), "certificate.pem", "/console/object/"+requests+"/-/saved", pki.Fingerprint(issued[0]))
	for file, want := range map[string][]*x509.Certificate{"certificate.pem": issued[:1], "chain.pem": issued} {
		if got, code := b.get(t, record+"/"+file); code != http.StatusOK || got != string(pki.EncodeCertificates(want...)) {
			t.Errorf("%s: %d\n%s", file, code, got)
		}
	}
	table, _ := b.get(t, strings.Replace(found, "issued?", "issued.csv?", 1))
	lines, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil || len(lines) != 2 || !slices.Contains(lines[1], pki.Fingerprint(issued[0])) {
		t.Fatalf("%v\n%s", err, table)
	}
	for _, cell := range lines[1] {
		if strings.HasPrefix(cell, "=") {
			t.Errorf("a spreadsheet takes %q for a formula", cell)
		}
	}
	if err := admin.CertificatesV1().CertificateSigningRequests().Delete(t.Context(), "saved", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if page, code := b.get(t, record+"/chain.pem"); code != http.StatusNotFound || !strings.Contains(page, "no longer stored") {
		t.Errorf("after the request is deleted: %d\n%s", code, page)
	}
	page, _ = b.get(t, record)
	if strings.Contains(page, "certificate.pem") {
		t.Error("a link to a certificate that is gone")
	}
}

// A root whose CA does not sign yet says from when it does.
func TestNextCA(t *testing.T) {
	s := shared.Start(t)
	c := connect(t, s)
	declared := newSigner("rotated")
	if err := c.Create(t.Context(), declared); err != nil {
		t.Fatal(err)
	}
	b := open(t, s, s.Login(t, "rotator", "system:masters"))
	shows := func(state string) func() bool {
		return func() bool {
			page, _ := b.get(t, "trust")
			_, rows := rowsOf(t, page, "State")
			for _, r := range rows {
				if r[0] == declared.Spec.SignerName && strings.HasPrefix(r[4], state) {
					return true
				}
			}
			return false
		}
	}
	apitest.Eventually(t, "its root is published", shows("current"))
	apitest.Eventually(t, "a new CA is requested", func() bool {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(declared), declared); err != nil {
			t.Fatal(err)
		}
		declared.Annotations = map[string]string{"certplane.dev/rotate-ca": "1"}
		return c.Update(t.Context(), declared) == nil
	})
	apitest.Eventually(t, "the next root is published", shows("next, signs from 2"))
}

// newSigner returns a Signer whose certificates live for 90 days.
func newSigner(name string) *v1alpha1.Signer {
	declared := &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: name}}
	declared.Spec = v1alpha1.SignerSpec{SignerName: name + ".example.com/web", Requests: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}}
	declared.Spec.Profile.Usages = []string{string(certificatesv1.UsageServerAuth)}
	declared.Spec.Profile.Names.DNSNames = "request.dnsNames"
	declared.Spec.Profile.Lifetime.Maximum = &metav1.Duration{Duration: 90 * 24 * time.Hour}
	declared.Spec.CA.Generated = &v1alpha1.GeneratedCA{}
	return declared
}

// Lifetimes are in days, in tables of the API and in the console.
func TestLifetimesInDays(t *testing.T) {
	s := shared.Start(t)
	c := connect(t, s)
	declared := newSigner("days")
	if err := c.Create(t.Context(), declared); err != nil {
		t.Fatal(err)
	}
	data, err := apitest.Client(t, s.Admin(t)).CoreV1().RESTClient().Get().AbsPath("/apis/certplane.dev/v1alpha1/signers").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(data), `"90d"`) {
		t.Errorf("%v\n%s", err, data)
	}
	page, _ := open(t, s, s.Login(t, "reader-of-days", "system:masters")).get(t, "signers")
	wants(t, page, "<td role=\"cell\" data-column=\"Lifetime\">90d</td>")
}
