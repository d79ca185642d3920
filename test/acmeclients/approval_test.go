package acmeclients

import (
	"strings"
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest/docpage"
)

// testApproval has clients that wait for a person: the certificate comes when the
// request is approved, and the reason when it is denied.
func testApproval(t *testing.T, w *world) {
	for _, c := range docpage.Commands(section(t, "acme-clients.md", "When a person approves")) {
		name, _, _ := strings.Cut(c.Line, " ")
		t.Run(name, func(t *testing.T) {
			if err := find(name); err != nil {
				t.Skipf("not run: %v; install.sh installs it where it may", err)
			}
			line := strings.TrimSpace(c.Line)
			if name == "certbot" {
				// Without the certificates that there are. What a server says of an order
				// that has failed is in certbot's log alone, which -vv prints.
				line += " --config-dir certbot -vv"
			}
			if out, err := w.whileItWaits(t, line, "approve"); err != nil {
				t.Errorf("approved: %v; it prints\n%s", err, out)
			}
			const reason = "denied: KubectlDeny: This CSR was denied by kubectl certificate deny."
			if out, err := w.whileItWaits(t, line, "deny"); err == nil || !strings.Contains(oneLine(out), reason) {
				t.Errorf("denied: %v; it prints\n%s\nwant %q", err, out, reason)
			}
		})
	}
}

// oneLine undoes the breaks that clients put into long lines.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// whileItWaits runs a command in a separate folder, and approves or denies its request
// after the order has waited.
func (w *world) whileItWaits(t *testing.T, line, verb string) (string, error) {
	t.Helper()
	before := w.orders(t)
	type result struct {
		out string
		err error
	}
	ended, dir := make(chan result, 1), t.TempDir()
	go func() {
		out, err := w.try(dir, line, w.env...)
		ended <- result{out, err}
	}()
	request := ""
	w.until(t, "the order of "+line+" waits", func() bool {
		select {
		case r := <-ended:
			t.Fatalf("%s\nhas ended: %v; it prints\n%s", line, r.err, r.out)
		default:
		}
		for name, o := range w.orders(t) {
			if _, old := before[name]; !old && o.Status.State == v1alpha1.AcmeOrderProcessing && o.Status.Request != nil {
				request = o.Status.Request.Name
			}
		}
		return request != ""
	})
	w.run(t, w.dir, "certplane kubectl wait csr/"+request+" --for=create --timeout=30s && sleep 4 && certplane kubectl certificate "+verb+" "+request)
	r := <-ended
	return r.out, r.err
}
