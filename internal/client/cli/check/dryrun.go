package check

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/print"
)

const (
	// dryRunPatience is the time limit of a dry run. Webhooks have the time limit in
	// their configuration, up to 30 s.
	dryRunPatience = 4 * time.Second
	// mostDryRuns is the maximum number of Signers with a trial request.
	mostDryRuns = 20
)

// trial is a request that is created in a dry run.
type trial struct {
	what     string
	resource authorizationv1.ResourceAttributes
	object   client.Object
}

// dryRuns creates requests in dry runs to check whether the server's admission answers,
// including all webhooks for requests.
func dryRuns(ctx context.Context, c *checker) []Check {
	trials, err := c.trials(ctx)
	if err != nil {
		return []Check{failure(err)}
	}
	results := make([]Check, len(trials))
	var wait sync.WaitGroup
	for i, t := range trials {
		wait.Go(func() { results[i] = c.try(ctx, t) })
	}
	wait.Wait()
	results = slices.DeleteFunc(results, func(r Check) bool { return r.Result == "" })
	if len(results) == 0 {
		return nil
	}
	bad := slices.DeleteFunc(slices.Clone(results), func(r Check) bool { return r.Result == OK })
	return summed(bad, "%s passed admission in a dry run", print.Number(len(results), "request"))
}

func (c *checker) trials(ctx context.Context) ([]trial, error) {
	request, err := trialRequest()
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	signerNames := []string{certificatesv1.KubeAPIServerClientSignerName}
	list := &v1alpha1.SignerList{}
	if err := c.api.List(ctx, list); err == nil { // the topic Signers reports an error
		for _, signer := range list.Items {
			if slices.Contains(signer.Spec.Requests, v1alpha1.CertificateSigningRequests) && len(signerNames) <= mostDryRuns {
				signerNames = append(signerNames, signer.Spec.SignerName)
			}
		}
	}
	var trials []trial
	for _, name := range signerNames {
		trials = append(trials, trial{
			"CertificateSigningRequest for " + name,
			authorizationv1.ResourceAttributes{Verb: "create", Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"},
			&certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{GenerateName: trialName + "-"},
				Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: name, Request: request, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature}},
			},
		})
	}
	about := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: trialName + "-"}
	issuer := cmmeta.IssuerReference{Name: trialName, Kind: cmv1.IssuerKind, Group: certmanager.Group}
	inDefault := func(resource string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Verb: "create", Group: certmanager.Group, Resource: resource, Namespace: metav1.NamespaceDefault}
	}
	return append(trials,
		trial{cmv1.CertificateRequestKind, inDefault("certificaterequests"), &cmv1.CertificateRequest{ObjectMeta: about, Spec: cmv1.CertificateRequestSpec{Request: request, IssuerRef: issuer}}},
		trial{cmv1.CertificateKind, inDefault("certificates"), &cmv1.Certificate{ObjectMeta: about, Spec: cmv1.CertificateSpec{SecretName: trialName, DNSNames: []string{trialName + ".example.com"}, IssuerRef: issuer}}},
	), nil
}

const trialName = "certplane-check"

// trialRequest returns a PKCS#10 request with a key that is not used elsewhere.
func trialRequest() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: trialName + ".example.com"}, DNSNames: []string{trialName + ".example.com"},
	}, key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), err
}

// try creates the request in a dry run. A refusal also counts as an answer: policies
// forbid many requests. The result is empty if the kind is not served.
func (c *checker) try(ctx context.Context, t trial) Check {
	switch may, err := c.api.MayI(ctx, t.resource); {
	case err != nil:
		return unread("what you may create", err)[0]
	case !may:
		return Check{Result: NotChecked, Text: "you may not create " + describe(t.resource) + ", so no dry run can check whether admission answers", cause: "create " + t.resource.Resource, isCause: true}
	}
	ctx, cancel := context.WithTimeout(ctx, dryRunPatience)
	defer cancel()
	err := c.api.Create(ctx, t.object, client.DryRunAll)
	doing := "a dry run of a " + t.what
	switch {
	case served.IsMissing(err):
		return Check{}
	case err != nil && isLate(err):
		return Check{
			Result: Failed, Text: fmt.Sprintf("%s: no answer within %s", doing, dryRunPatience), cause: "dry run: time", isCause: true,
			Next: []string{"Check that each webhook for it answers: " + c.Line("kubectl", "get", "validatingwebhookconfigurations,mutatingwebhookconfigurations")},
		}
	case apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err):
		reason := strings.TrimPrefix(err.Error(), "Internal error occurred: ")
		return Check{
			Result: Failed, Text: doing + ": " + reason, cause: "dry run: " + reason, isCause: true,
			Next: []string{"Until then the server refuses requests. Start the program that serves the webhook, or delete its configuration."},
		}
	case err != nil && !isAnswer(err):
		return Check{Result: Failed, Text: doing + ": " + err.Error(), cause: "dry run: " + err.Error(), isCause: true}
	}
	return Check{Result: OK}
}

// isAnswer reports whether a refusal shows that admission answers.
func isAnswer(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsTooManyRequests(err) || apierrors.IsConflict(err) ||
		apierrors.ReasonForError(err) != metav1.StatusReasonUnknown
}
