package cluster_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/check"
	"github.com/certplane/certplane/internal/client/console"
	"github.com/certplane/certplane/internal/pki"
)

// issueNamed issues a certificate with some names for a request like another program.
func (w world) issueNamed(t *testing.T, ca *pki.Authority, name string, since, lifetime time.Duration, dnsNames ...string) {
	t.Helper()
	key := apitest.NewKey(t)
	csr := apitest.Create(t, w.admin, apitest.NewCSR(t, name, "example.com/foreign", pki.Subject{DNSNames: dnsNames}, key))
	csr = apitest.Decide(t, w.admin, csr, certificatesv1.CertificateApproved)
	chain, err := ca.Issue(pki.UnrecordedSigning, pki.Subject{DNSNames: dnsNames}, key.Public(), pki.ServerUsages(), lifetime, time.Now().Add(-since))
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Certificate = pki.EncodeCertificates(chain...)
	if _, err := w.admin.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.awaitRecord(t, name)
}

// The inventory of a cluster and that of "certplane serve" show the same about the same
// certificates: in each output of "certplane certificates", in "certplane check" and in the console.
func TestInventoryShowsTheSame(t *testing.T) {
	w := startWith(t, "*")
	run(t, w.config(t))
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "foreign CA", apitest.NewKey(t), 365*24*time.Hour, time.Now().Add(-100*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		w.issueNamed(t, ca, fmt.Sprintf("web-%d", n), 0, time.Duration(20+n)*24*time.Hour, fmt.Sprintf("web-%d.example.com", n), fmt.Sprintf("web-%d.shop.example.com", n))
	}
	w.issueNamed(t, ca, "ends-soon", 90*time.Hour, 100*time.Hour, "soon.example.com")
	w.foreign(t, "a-ca")
	w.awaitRecord(t, "a-ca")
	w.foreignRequest(t, "external")
	w.awaitRecord(t, "external")
	w.sign(t, "alice")

	now := time.Now()
	served, packed := w.Admin(t), withoutInventory(w.Admin(t))
	listed := func(api *rest.Config, change func(*certificates.Config)) string {
		t.Helper()
		var out bytes.Buffer
		search := certificates.Config{
			Connect: func() (client.Client, error) { return certificates.Connect(api) }, Requester: "certplane:admin", Limit: 100, Now: now, Stdout: &out, Stderr: &out,
		}
		change(&search)
		if err := certificates.Run(t.Context(), search); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for reason, tc := range map[string]struct {
		change func(*certificates.Config)
		lines  int
	}{
		"all":        {func(*certificates.Config) {}, 10},
		"name":       {func(c *certificates.Config) { c.Name = "web-3.example.com" }, 2},
		"domain":     {func(c *certificates.Config) { c.Under = "shop.example.com" }, 6},
		"expiring":   {func(c *certificates.Config) { c.Expiring = 3 * 24 * time.Hour }, 4},
		"weak":       {func(c *certificates.Config) { c.KeyType = "ECDSA-P256" }, 10},
		"long":       {func(c *certificates.Config) { c.LongerThan = 22 * 24 * time.Hour }, 5},
		"since":      {func(c *certificates.Config) { c.Since, c.Ended = now.Add(-time.Hour), true }, 10},
		"limit":      {func(c *certificates.Config) { c.Limit = 2 }, 4},
		"no records": {func(c *certificates.Config) { c.Name = "nothing.example.com" }, 1},
	} {
		want, got := listed(served, tc.change), listed(packed, tc.change)
		if diff := cmp.Diff(want, got); diff != "" || strings.Count(want, "\n") != tc.lines {
			t.Errorf("%s: -served +in packs:\n%s\n%s", reason, diff, want)
		}
	}
	file := func(api *rest.Config) [][]string {
		rows, err := csv.NewReader(strings.NewReader(listed(api, func(c *certificates.Config) { c.Output = "csv" }))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for n, column := range rows[0] { // a watch tells neither who has approved, nor when a certificate was written
			for _, row := range rows[1:] {
				if slices.Contains([]string{"approvers", "approved", "issued"}, column) {
					row[n] = ""
				}
			}
		}
		return rows
	}
	if diff := cmp.Diff(file(served), file(packed)); diff != "" {
		t.Errorf("CSV: -served +in packs:\n%s", diff)
	}

	checked := func(api *rest.Config) (found []string) {
		t.Helper()
		report, err := check.Run(t.Context(), check.Config{
			Client: api, Controllers: "certplane-system", Now: func() time.Time { return now },
			Line: func(words ...string) string { return strings.Join(append([]string{"certplane"}, words...), " ") },
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range report.Checks {
			if c.Topic == "Inventory" {
				found = append(found, fmt.Sprint(c.Result, " ", c.Text, c.Next))
			}
		}
		return found
	}
	want, got := checked(served), checked(packed)
	if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(fmt.Sprint(want), "soon.example.com") {
		t.Errorf("check: -served +in packs:\n%s\n%v", diff, want)
	}

	for _, path := range []string{"issued?requester=certplane:admin", "issued?requester=certplane:admin&name=web-3.example.com", "issued/" + w.awaitRecord(t, "web-3").Name} {
		want, got := page(t, served, now, path), page(t, packed, now, path)
		if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(strings.Join(want, " "), "web-3.example.com") {
			t.Errorf("%s: -served +in packs:\n%s\n%v", path, diff, want)
		}
	}
}

var (
	tags    = regexp.MustCompile(`(?s)<script.*?</script>|<[^>]*>`)
	spaces  = regexp.MustCompile(`\s+`)
	clauses = regexp.MustCompile(`(approved by|at) \S+ `)
)

// page returns the words on a page of the console, without those that packs do not have: who has
// approved, and when.
func page(t *testing.T, api *rest.Config, now time.Time, path string) []string {
	t.Helper()
	h := console.New(console.Config{
		Base: "/console/", Now: func() time.Time { return now }, Kubectl: []string{"kubectl"},
		User: func(*http.Request) (console.Identity, error) { return console.Identity{API: api, Name: "admin"}, nil },
	})
	server := httptest.NewServer(h)
	defer server.Close()
	answer, err := http.Get(server.URL + "/console/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", path, answer.Status, err, body)
	}
	text := spaces.ReplaceAllString(tags.ReplaceAllString(string(body), " "), " ")
	if strings.HasPrefix(path, "issued/") {
		text = clauses.ReplaceAllString(text, "$1 ")
	}
	// On the list, the approver follows the requester, who is the same. A column without values is
	// not shown.
	return strings.Fields(strings.NewReplacer("certplane:admin certplane:admin", "certplane:admin", "certplane:admin - ", "certplane:admin ", "Approved by ", "").Replace(text))
}
