package check

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhook is a webhook that the API server calls.
type webhook struct {
	configuration, name string
	client              admissionregistrationv1.WebhookClientConfig
	rules               []admissionregistrationv1.RuleWithOperations
	failure             *admissionregistrationv1.FailurePolicyType
	// own is set if certplane's pods serve it.
	own bool
}

// webhooks checks the CAs of webhooks for certificate objects.
func webhooks(ctx context.Context, c *checker) []Check {
	var all []webhook
	var checks []Check
	validating := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	if err := c.api.List(ctx, validating); err != nil {
		checks = append(checks, unread("validatingwebhookconfigurations", err)...)
	}
	for _, configuration := range validating.Items {
		for _, w := range configuration.Webhooks {
			all = append(all, webhook{"ValidatingWebhookConfiguration " + configuration.Name, w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, isOwn(&configuration)})
		}
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	if err := c.api.List(ctx, mutating); err != nil {
		checks = append(checks, unread("mutatingwebhookconfigurations", err)...)
	}
	for _, configuration := range mutating.Items {
		for _, w := range configuration.Webhooks {
			all = append(all, webhook{"MutatingWebhookConfiguration " + configuration.Name, w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, isOwn(&configuration)})
		}
	}
	all = slices.DeleteFunc(all, func(w webhook) bool { return !w.isAboutCertificates() })
	if len(all) == 0 {
		return checks
	}
	var bad []Check
	for _, w := range all {
		result, problem := c.webhook(w)
		if result != OK {
			bad = append(bad, Check{Result: result, Text: fmt.Sprintf("%s: %s: %s", w.configuration, w.name, problem), Next: []string{"The program that serves the webhook writes the CA: does it run?"}}.because(w.own, notInstalled))
		}
	}
	return append(checks, summed(bad, "the CAs of %s about certificates are valid", print.Number(len(all), "webhook"))...)
}

// isOwn reports whether a configuration is part of an installation of certplane.
func isOwn(configuration metav1.Object) bool {
	for label, value := range ofInstallation {
		if configuration.GetLabels()[label] != value {
			return false
		}
	}
	return true
}

// because returns the check with its cause, if it is known.
func (c Check) because(known bool, cause string) Check {
	if known {
		c.cause = cause
	}
	return c
}

// isAboutCertificates reports whether the webhook is called for certificate objects. A
// webhook without rules is never called.
func (w webhook) isAboutCertificates() bool {
	return slices.ContainsFunc(w.rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		return slices.ContainsFunc(rule.APIGroups, func(group string) bool {
			return group == certificatesv1.GroupName || group == v1alpha1.GroupName || strings.HasSuffix(group, cmv1.SchemeGroupVersion.Group)
		})
	})
}

// webhook checks the CA of a webhook. A webhook with a URL needs none if a public CA has
// issued its certificate.
func (c *checker) webhook(w webhook) (Result, string) {
	unusable := Failed
	if w.failure != nil && *w.failure == admissionregistrationv1.Ignore {
		unusable = Warning
	}
	if len(w.client.CABundle) == 0 {
		if w.client.Service == nil {
			return OK, ""
		}
		return unusable, "it has no CA, so it cannot be called"
	}
	roots, err := pki.ParseBundle(w.client.CABundle)
	if err != nil {
		return unusable, "its CA cannot be read: " + err.Error()
	}
	last := slices.MaxFunc(roots, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	switch result := c.ending(last.NotBefore, last.NotAfter); result {
	case OK:
		return OK, ""
	case Failed:
		return unusable, "its CA " + c.until(last.NotAfter)
	default:
		return result, "its CA " + c.until(last.NotAfter)
	}
}
