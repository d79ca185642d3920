package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/trust"
	"github.com/certplane/certplane/internal/policy/request"
)

const (
	// fresh is the time within which controllers process a new object.
	fresh = 15 * time.Second
	// settling is the time within which they make it ready.
	settling = 2 * time.Minute
)

// signers checks Signers and their CAs.
func signers(ctx context.Context, c *checker) []Check {
	list := &v1alpha1.SignerList{}
	if err := c.api.List(ctx, list); err != nil {
		return unread("signers.certplane.dev", err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	var bad []Check
	for i := range list.Items {
		signer := &list.Items[i]
		name := fmt.Sprintf("Signer %s (%s)", signer.Name, signer.Spec.SignerName)
		explain := c.Line("explain", "signer", signer.Name)
		check := c.notReady(signer, signer.Status.Conditions)
		if ca := signer.Status.CA; ca != nil {
			if result := c.ending(ca.NotBefore.Time, ca.NotAfter.Time); severity(result) > severity(check.Result) || result == Failed {
				check = Check{Result: result, Text: "its CA " + c.until(ca.NotAfter.Time), cause: causeOfCA(signer.Spec.SignerName), isCause: true}
			}
		}
		if check.Result != OK {
			check.Text, check.Next = name+": "+check.Text, []string{explain}
			bad = append(bad, check)
		}
	}
	return summed(bad, "%s ready", are(len(list.Items), "Signer"))
}

// are returns "1 Signer is" or "2 Signers are".
func are(n int, thing string) string {
	if n == 1 {
		return print.Number(n, thing) + " is"
	}
	return print.Number(n, thing) + " are"
}

// causeOfCA names the CA of a signer as a cause.
func causeOfCA(signerName string) string { return "CA of " + signerName }

// notReady returns the check of whether an object is ready.
func (c *checker) notReady(object metav1.Object, conditions []metav1.Condition) Check {
	condition := meta.FindStatusCondition(conditions, v1alpha1.Ready)
	switch {
	case condition == nil:
		return c.untouched(object)
	case condition.Status == metav1.ConditionTrue:
		return Check{Result: OK}
	}
	return Check{Result: Failed, Text: "not ready: " + condition.Message}
}

// untouched returns the check of an object that no controller has processed.
func (c *checker) untouched(object metav1.Object) Check {
	switch age := c.now.Sub(object.GetCreationTimestamp().Time); {
	case age < fresh:
		return Check{Result: OK}
	case age < settling:
		return Check{Result: Warning, Text: fmt.Sprintf("no controller has processed it since it was created %s ago", print.Span(age)), cause: notInstalled}
	}
	return Check{Result: Failed, Text: "no controller has processed it: is one running?", cause: notInstalled}
}

// issuers checks the issuers of cert-manager.io.
func issuers(ctx context.Context, c *checker) []Check {
	var all []cmv1.GenericIssuer
	var checks []Check
	list := &cmv1.IssuerList{}
	if err := c.api.List(ctx, list); err != nil {
		checks = append(checks, unread("issuers.cert-manager.io in all namespaces", err)...)
	}
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	ofCluster := &cmv1.ClusterIssuerList{}
	if err := c.api.List(ctx, ofCluster); err != nil {
		checks = append(checks, unread("clusterissuers.cert-manager.io", err)...)
	}
	for i := range ofCluster.Items {
		all = append(all, &ofCluster.Items[i])
	}
	if len(all) == 0 {
		return checks
	}
	var bad []Check
	for _, issuer := range all {
		kind, name, words := cmv1.ClusterIssuerKind, issuer.GetName(), []string{"kubectl", "describe", "clusterissuer", issuer.GetName()}
		if issuer.GetNamespace() != "" {
			kind, name, words = cmv1.IssuerKind, request.FullName(issuer.GetNamespace(), name), []string{"kubectl", "describe", "issuer", "-n", issuer.GetNamespace(), name}
		}
		check := Check{Result: OK}
		switch condition := certmanager.IssuerCondition(issuer, cmv1.IssuerConditionReady); {
		case condition == nil:
			check = c.untouched(issuer)
		case condition.Status != cmmeta.ConditionTrue:
			check = Check{Result: Failed, Text: "not ready: " + condition.Message}
		}
		if check.Result != OK {
			check.Text, check.Next = fmt.Sprintf("%s %s: %s", kind, name, check.Text), []string{c.Line(words...)}
			bad = append(bad, check)
		}
	}
	return append(checks, summed(bad, "%s ready", are(len(all), "issuer"))...)
}

// acmeEndpoints checks the endpoints of the ACME server.
func acmeEndpoints(ctx context.Context, c *checker) []Check {
	list := &v1alpha1.AcmeEndpointList{}
	if err := c.api.List(ctx, list); err != nil {
		return unread("acmeendpoints.certplane.dev", err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	var bad []Check
	for i := range list.Items {
		endpoint := &list.Items[i]
		if check := c.acmeEndpoint(endpoint); check.Result != OK {
			check.Text, check.Next = fmt.Sprintf("AcmeEndpoint %s: %s", endpoint.Name, check.Text), []string{c.Line("explain", "acmeendpoint", endpoint.Name)}
			bad = append(bad, check)
		}
	}
	return summed(bad, "%s ready", are(len(list.Items), "AcmeEndpoint"))
}

// acmeEndpoint checks whether an endpoint is ready, and whether the server obtains its
// next certificate.
func (c *checker) acmeEndpoint(endpoint *v1alpha1.AcmeEndpoint) Check {
	check := c.notReady(endpoint, endpoint.Status.Conditions)
	waits := meta.FindStatusCondition(endpoint.Status.Conditions, v1alpha1.AcmeCertificateWaits)
	if check.Result == OK && waits != nil && c.now.Sub(waits.LastTransitionTime.Time) >= settling {
		return Check{Result: Warning, Text: waits.Message}
	}
	return check
}

// trustBundles checks the roots of signers. An expired root matters only if its signer
// has no other one.
func trustBundles(ctx context.Context, c *checker) []Check {
	const what = "clustertrustbundles.certificates.k8s.io"
	bundles, err := trust.List(ctx, c.api, "")
	if errors.Is(err, certmanager.ErrNoResource) || served.IsMissing(err) {
		return nil
	}
	if err != nil {
		return unread(what, err)
	}
	var bad []Check
	lasts := map[string]Result{} // the best result among the roots of each signer
	for i := range bundles {
		bundle := &bundles[i]
		roots, err := trust.Roots(bundles[i : i+1])
		if err != nil {
			bad = append(bad, Check{Result: Failed, Text: err.Error()})
			continue
		}
		for _, root := range roots {
			result := c.ending(root.NotBefore, root.NotAfter)
			if result == Failed {
				bad = append(bad, Check{Result: Warning, Text: fmt.Sprintf("ClusterTrustBundle %s: the root %s %s", bundle.Name, root.Subject, c.until(root.NotAfter)), cause: causeOfCA(bundle.Spec.SignerName)})
			}
			if best, known := lasts[bundle.Spec.SignerName]; !known || severity(result) < severity(best) {
				lasts[bundle.Spec.SignerName] = result
			}
		}
	}
	for signer, best := range lasts {
		if best != OK && signer != "" {
			text := fmt.Sprintf("all roots of %s expire soon", signer)
			if best == Failed {
				text = fmt.Sprintf("all roots of %s have expired", signer)
			}
			bad = append(bad, Check{Result: best, Text: text, Next: []string{c.Line("trust", signer, "-o", "table")}, cause: causeOfCA(signer)})
		}
	}
	slices.SortStableFunc(bad, func(a, b Check) int { return strings.Compare(a.Text, b.Text) })
	return summed(bad, "the roots of %s are valid", print.Number(len(lasts), "signer"))
}
