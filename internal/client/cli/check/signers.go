package check

import (
	"context"
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/print"
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
		check := c.condition(v1alpha1.Ready, signer, signer.Status.Conditions)
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

// condition returns the check of whether a condition of an object is true.
func (c *checker) condition(kind string, object metav1.Object, conditions []metav1.Condition) Check {
	condition := meta.FindStatusCondition(conditions, kind)
	switch {
	case condition == nil:
		return c.untouched(object)
	case condition.Status == metav1.ConditionTrue:
		return Check{Result: OK}
	}
	return Check{Result: Failed, Text: "not " + strings.ToLower(kind) + ": " + condition.Message}
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
	check := c.condition(v1alpha1.Ready, endpoint, endpoint.Status.Conditions)
	waits := meta.FindStatusCondition(endpoint.Status.Conditions, v1alpha1.AcmeCertificateWaits)
	if check.Result == OK && waits != nil && c.now.Sub(waits.LastTransitionTime.Time) >= settling {
		return Check{Result: Warning, Text: waits.Message}
	}
	return check
}
