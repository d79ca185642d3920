package console_test

import (
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/certplane/certplane/internal/apitest"
)

// contents are what columns have, by their headers. All cells are checked.
var contents = map[string]*regexp.Regexp{
	"SHA-256 fingerprint": regexp.MustCompile(`^(-|[0-9a-f]{64}|([0-9A-F]{2}:){31}[0-9A-F]{2})$`),
	"Ends":                regexp.MustCompile(`^(-|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$`),
	"In":                  regexp.MustCompile(`^(-|ended|revoked|\d+[a-z0-9]*)$`),
	"Age":                 regexp.MustCompile(`^\d+[a-z0-9]*$`),
	"Serial number":       regexp.MustCompile(`^[0-9a-f:]+$`),
	"Bundle":              regexp.MustCompile(`^[a-z0-9.:-]*:?[a-z0-9.-]+:[a-z0-9.:-]+$`),
	"Signer":              regexp.MustCompile(`^(-|[a-z0-9.-]+/[^ ]+|Issuer .*|ClusterIssuer .*|certplane[ -].*)$`),
	"Request":             regexp.MustCompile(`^(csr|cr|pcr)/`),
	"State":               regexp.MustCompile(`^[A-Za-z][a-z ]*(, (signs from|trusted until) .+)?$`),
	"You":                 regexp.MustCompile(`^(-|may |needs |you |unknown|a policy|its signer)`),
}

// Each table has its contents below its headers.
func TestTables(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	submit(t, admin, "in-a-table")
	b := open(t, s, s.Login(t, "accountant", "system:masters"))
	apitest.Eventually(t, "roots are published", func() bool {
		page, _ := b.get(t, "trust")
		return len(elements(parse(t, page), "tbody")) > 0
	})
	checked := map[string]int{}
	for _, path := range []string{
		"start", "requests", "requests?state=all", "issued", "issued?own=yes", "revocations", "certificates", "issuers", "signers", "trust", "hosts", "policies", "acme",
		"object/" + requests + "/-/in-a-table", "object/signers.certplane.dev/-/kubernetes.io/kubelet-serving",
	} {
		page, _ := b.get(t, path)
		for _, table := range elements(parse(t, page), "table") {
			checkTable(t, path, table, checked)
		}
	}
	for _, column := range []string{"SHA-256 fingerprint", "Ends", "In", "Age", "Bundle", "Signer", "Request", "You"} {
		if checked[column] == 0 {
			t.Errorf("no page has something in the column %q", column)
		}
	}
}

func checkTable(t *testing.T, path string, table *html.Node, checked map[string]int) {
	t.Helper()
	var header []string
	filled := map[int]bool{0: true}
	defer func() {
		for i, name := range header {
			if attribute(table, "class") == "cards" && !filled[i] {
				t.Errorf("%s: the column %q is empty", path, name)
			}
		}
	}()
	for _, r := range elements(table, "tr") {
		cells := elements(r, "th", "td")
		if r.Parent.Data == "thead" {
			for _, cell := range cells {
				header = append(header, text(cell))
			}
			continue
		}
		if header == nil { // of an object: each row has its header
			continue
		}
		if len(cells) != len(header) {
			t.Errorf("%s: a row of %d cells below %d headers %q", path, len(cells), len(header), header)
			continue
		}
		for i, cell := range cells {
			if named := attribute(cell, "data-column"); named != header[i] {
				t.Errorf("%s: a cell of %q is below %q", path, named, header[i])
			}
			if want := contents[header[i]]; want != nil && !want.MatchString(text(cell)) {
				t.Errorf("%s: below %q is %q", path, header[i], text(cell))
			}
			filled[i] = filled[i] || header[i] == "" || text(cell) != "-"
			if text(cell) != "-" {
				checked[strings.TrimSpace(header[i])]++
			}
		}
	}
}
