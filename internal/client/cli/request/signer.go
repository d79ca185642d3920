package request

import (
	"context"
	"crypto"
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/target"
)

// askSigners is the timeout for listing Signers. Without an answer the request is
// submitted unchanged.
const askSigners = 5 * time.Second

// resolveSigner completes the options from the declared Signer: its signer name, if the
// option is the Signer's own name, and its permitted usages, if none are given. It
// returns an error for a name that is probably a mistake, unless the run does not wait.
func (r *run) resolveSigner(ctx context.Context) error {
	if r.Signers == nil {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, askSigners)
	defer cancel()
	all, known := r.Signers(asking)
	if !known {
		return r.unanswered(ctx, ctx.Err())
	}
	name := r.Options.Signer
	declared, near := target.Declared(name, all)
	if declared != nil {
		r.Options.Signer, r.Options.permitted = declared.Spec.SignerName, declared.Spec.Profile.Usages
		return nil
	}
	if r.Wait == 0 || r.DryRun != DryRunNone || answeredByOthers(name) {
		return nil
	}
	if r.Name != "" {
		if _, err := r.server.Get(asking, r.Name, metav1.GetOptions{}); err == nil {
			return nil // it was submitted before
		}
	}
	err := noSignerError(name, near)
	if err == nil {
		r.warn("no Signer signs for %s: your own program or a configured webhook of the server must sign", name)
	}
	return err
}

// answeredByOthers reports whether a signer needs no Signer: true for signers of
// Kubernetes and issuers of cert-manager.io.
func answeredByOthers(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasPrefix(domain, "issuers.") || strings.HasPrefix(domain, "clusterissuers.")
}

// noSignerError returns the error for an incomplete or probably misspelt name. It returns
// nil for other names: a program unknown to certplane can sign for them.
func noSignerError(name, near string) error {
	text := fmt.Sprintf("no Signer signs for %q", name)
	if near != "" {
		text += fmt.Sprintf(": did you mean %s?", near)
	} else if strings.Contains(name, "/") {
		return nil
	}
	return exit.WithNext(fmt.Errorf("%s", text),
		"To list them: certplane signer list", "If another program signs for it, submit the request with --wait 0.")
}

// usagesOf returns the usages that a Signer permits and that the key can have.
func usagesOf(permitted []string, key crypto.PublicKey) []certificatesv1.KeyUsage {
	_, isRSA := key.(*rsa.PublicKey)
	var usages []certificatesv1.KeyUsage
	for _, usage := range permitted {
		enciphers := slices.Contains([]certificatesv1.KeyUsage{certificatesv1.UsageKeyEncipherment, certificatesv1.UsageDataEncipherment}, certificatesv1.KeyUsage(usage))
		if isRSA || !enciphers {
			usages = append(usages, certificatesv1.KeyUsage(usage))
		}
	}
	return usages
}

// otherUsages returns the advice for a request that the signer refused for its usages. The
// message ends with those that it permits.
func otherUsages(reason, message string) []string {
	_, permitted, found := strings.Cut(message, "it permits ")
	if reason != "UsageNotPermitted" || !found {
		return nil
	}
	var flags []string
	for usage := range strings.SplitSeq(permitted, ", ") {
		flags = append(flags, "--usage "+print.Quote(strings.TrimSpace(usage)))
	}
	return []string{"To request the permitted usages: " + strings.Join(flags, " ")}
}
