package request

import (
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile/readymade"
)

// verdictError returns nil for an issued request and the refusal otherwise.
func (w *waiter) verdictError() error {
	v := certificates.Judge(w.last)
	switch v.State {
	case certificates.Denied:
		return &exit.Error{
			Err:  fmt.Errorf("the request %s was denied%s", w.name, because(v.Condition.Reason, v.Condition.Message)),
			Code: exit.Denied,
			Next: []string{"A denial is final. Resolve its reason, then submit a new request under another name."},
		}
	case certificates.Failed:
		return &exit.Error{
			Err:  fmt.Errorf("signer %s could not issue %s%s", w.last.Spec.SignerName, w.name, because(v.Condition.Reason, v.Condition.Message)),
			Code: exit.Failed,
			Next: slices.Concat([]string{"A failure is final. Correct the reported problem, then submit a new request under another name."}, otherUsages(v.Condition.Reason, v.Condition.Message), forServers(w.last)),
		}
	}
	return nil
}

// forServers returns the advice for a server certificate requested from a signer of
// Kubernetes: these sign for clients of the API and for kubelets.
func forServers(csr *certificatesv1.CertificateSigningRequest) []string {
	asked, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil || !strings.HasPrefix(csr.Spec.SignerName, "kubernetes.io/") || !slices.Contains(csr.Spec.Usages, certificatesv1.UsageServerAuth) {
		return nil
	}
	command := []string{"certplane", "request", "--signer", readymade.Server}
	for _, name := range asked.DNSNames {
		command = append(command, "--dns", name)
	}
	for _, address := range asked.IPAddresses {
		command = append(command, "--ip", address.String())
	}
	if len(asked.DNSNames)+len(asked.IPAddresses) == 0 {
		command = append(command, "--dns", "NAME")
	}
	return []string{"Certificates for servers other than kubelets come from " + readymade.ServerSignerName + ":", "  " + print.CommandLine(command...)}
}

// delay returns the condition in which the signer of an approved request reports why it
// cannot sign at present; nil without one.
func delay(csr *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequestCondition {
	if certificates.Judge(csr).State != certificates.Approved {
		return nil
	}
	return certificates.Condition(csr, certificates.ConditionDelayed)
}

// because quotes the reason and the message of a condition, if they are set.
func because(reason, message string) string {
	switch {
	case reason != "" && message != "":
		return fmt.Sprintf(": %s (%s)", message, reason)
	case reason+message != "":
		return ": " + reason + message
	}
	return ", no reason given"
}

// timeoutError returns an error that names the party that has not acted, with the next
// step.
func (r *run) timeoutError(w *waiter) error {
	again := []string{"To continue waiting:", "  " + r.again(w.name)}
	out := &exit.Error{Code: exit.TimedOut}
	switch {
	case w.trouble != nil:
		out.Err = fmt.Errorf("no certificate within %s: cannot read the request from the server: %w", r.Wait, w.trouble)
		out.Next = again
	case delay(w.last) != nil:
		late := delay(w.last)
		out.Err = fmt.Errorf("%s is approved, but within %s signer %s could not sign it%s", w.name, r.Wait, w.last.Spec.SignerName, because(late.Reason, late.Message))
		out.Next = append([]string{"The signer retries automatically. For more about the request:", "  " + r.Explain(w.name)}, again...)
	case certificates.Judge(w.last).State == certificates.Approved:
		out.Err = fmt.Errorf("%s is approved, but within %s signer %s has not issued it", w.name, r.Wait, w.last.Spec.SignerName)
		out.Next = append([]string{
			"Check the signer's name, and that its controller runs. To see more about the request, and the accounts that may sign it:",
			"  " + r.Explain(w.name),
		}, again...)
	default:
		out.Err = fmt.Errorf("%s was not approved or denied within %s", w.name, r.Wait)
		out.Next = append([]string{"To approve it:", "  " + approveCommand(w.name)}, again...)
	}
	return out
}

// approveCommand returns the command that approves a request.
func approveCommand(name string) string {
	return print.CommandLine(print.Command([]string{"certplane", "approve"}, []string{name})...)
}
