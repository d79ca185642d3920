package check

import (
	"context"
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"

	apicertificates "github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/inbox"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

const (
	// undecided is the maximum time that a request waits for a person.
	undecided = time.Hour
	// unsigned is the maximum time that an approved request waits for its signer.
	unsigned = 5 * time.Minute
)

// requests checks whether requests are decided and signed.
func requests(ctx context.Context, c *checker) []Check {
	found, err := inbox.List(ctx, c.api, inbox.Query{All: true})
	if err != nil {
		return unread("requests for certificates", err)
	}
	var checks, bad []Check
	for _, missing := range found.Missing {
		checks = append(checks, Check{Result: NotChecked, Text: missing})
	}
	for _, e := range found.Requests {
		if check, waits := c.waits(e); waits {
			bad = append(bad, check)
		}
	}
	if len(bad)+len(found.Requests) == 0 && len(checks) > 0 {
		return checks
	}
	return append(checks, summed(bad, "%s", noneWaits(len(found.Requests)))...)
}

func noneWaits(n int) string {
	if n == 0 {
		return "there are no requests"
	}
	return fmt.Sprintf("%s, all recent", print.Number(n, "request"))
}

// waits returns the check of a request that waits for too long.
func (c *checker) waits(e inbox.Entry) (Check, bool) {
	age := c.now.Sub(e.Created)
	ofKubelet := e.Signer == certificatesv1.KubeAPIServerClientKubeletSignerName || e.Signer == certificatesv1.KubeletServingSignerName
	// Requests of pods need no decision: they wait for their signer.
	isPods := e.Kind == rights.PodRequests.Name
	check := Check{Text: fmt.Sprintf("%s %s for %s has waited for %s", e.Kind, request.FullName(e.Namespace, e.Name), e.Signer, print.Span(age))}
	switch state := apicertificates.State(e.State); {
	case (state == apicertificates.Approved || isPods && state == apicertificates.Pending) && age > unsigned:
		check.Result, check.Text = Failed, check.Text+" to be signed"
	case state == apicertificates.Pending && !isPods && ofKubelet && age > unsigned:
		check.Result, check.Text = Warning, check.Text+": no approver has approved it"
	case state == apicertificates.Pending && !isPods && age > undecided:
		check.Result, check.Text = Warning, check.Text+" to be approved or denied"
	default:
		return check, false
	}
	words := []string{"explain", strings.ToLower(e.Kind)}
	if e.Kind == rights.SigningRequests.Name {
		words[1] = "csr"
	}
	var flags []string
	if e.Namespace != "" {
		flags = []string{"-n", e.Namespace}
	}
	check.Next = []string{c.Line(print.Command(words, []string{e.Name}, flags...)...)}
	return check, true
}

// overdue is the time after a Certificate's renewal time from which it is reported.
const overdue = time.Hour

// certificates checks the Certificates of cert-manager.io.
func certificates(ctx context.Context, c *checker) []Check {
	list := &cmv1.CertificateList{}
	if err := c.api.List(ctx, list); err != nil {
		return unread("certificates.cert-manager.io in all namespaces", err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	var bad []Check
	for i := range list.Items {
		crt := &list.Items[i]
		if check := c.certificate(crt); check.Result != OK {
			check.Text, check.Next = fmt.Sprintf("Certificate %s: %s", request.FullName(crt.Namespace, crt.Name), check.Text), []string{c.Line("explain", "certificate", crt.Name, "-n", crt.Namespace)}
			bad = append(bad, check)
		}
	}
	return summed(bad, "%s ready", are(len(list.Items), "Certificate"))
}

func (c *checker) certificate(crt *cmv1.Certificate) Check {
	condition := certmanager.CertificateCondition(crt, cmv1.CertificateConditionReady)
	ended := crt.Status.NotAfter != nil && !crt.Status.NotAfter.After(c.now)
	switch {
	case ended:
		return Check{Result: Failed, Text: "it " + c.until(crt.Status.NotAfter.Time)}
	case condition == nil:
		return c.untouched(crt)
	case condition.Status != cmmeta.ConditionTrue && c.now.Sub(crt.CreationTimestamp.Time) > settling:
		return Check{Result: Failed, Text: "not ready: " + condition.Message}
	case crt.Status.RenewalTime != nil && c.now.Sub(crt.Status.RenewalTime.Time) > overdue:
		return Check{Result: Warning, Text: fmt.Sprintf("it should have been renewed %s", print.Ago(c.now, crt.Status.RenewalTime.Time))}
	}
	return Check{Result: OK}
}
