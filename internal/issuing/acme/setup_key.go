package acme

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/pki"
)

// The label of Secrets with the keys of accounts.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "cert-manager"
)

// readKey reads the key of the account. If the Secret does not exist, it makes
// one.
func (p *pass) readKey(ctx context.Context) *issuing.Ready {
	name, entry := p.accounts.KeySecret(p.issuer)
	p.secret, p.entry = &corev1.Secret{}, entry
	err := p.Client.Get(ctx, name, p.secret)
	switch {
	case apierrors.IsNotFound(err) && p.spec.DisableAccountKeyGeneration:
		return wait(ReasonVerifyAccount, failedToVerify+"the ACME issuer config has 'disableAccountKeyGeneration' set to true, but the secret was not found: %v", err)
	case apierrors.IsNotFound(err):
		return p.createKey(ctx, name)
	case err != nil:
		return retry(ReasonVerifyAccount, failedToVerify+"%v", err)
	}
	key, err := account.ReadKey(p.secret, entry)
	if unsuitable := new(account.UnsuitableKeyError); errors.As(err, &unsuitable) {
		return wait(ReasonVerifyAccount, "%v", err)
	}
	if err != nil {
		return wait(ReasonVerifyAccount, "Account private key is invalid: %v", err)
	}
	return p.setKey(key)
}

func (p *pass) setKey(key account.Key) *issuing.Ready {
	hash, err := account.KeyHash(key)
	if err != nil {
		return wait(ReasonVerifyAccount, "Account private key is invalid: %v", err)
	}
	p.key, p.hash = key, hash
	return nil
}

// createKey makes a key and its Secret.
func (p *pass) createKey(ctx context.Context, name types.NamespacedName) *issuing.Ready {
	key, err := pki.GenerateKey(p.AccountKey)
	if err != nil {
		return retry(ReasonRegisterFailed, failedToRegister+"%v", err)
	}
	data, err := account.EncodeKey(key)
	if err != nil {
		return retry(ReasonRegisterFailed, failedToRegister+"%v", err)
	}
	p.secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{managedByLabel: managedBy}},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{p.entry: data},
	}
	if value := p.rotation(); value != "" {
		p.secret.Annotations = map[string]string{RotateAnnotation: value} // the key is new
	}
	if err := p.Client.Create(ctx, p.secret); err != nil {
		return retry(ReasonRegisterFailed, failedToRegister+"%v", err)
	}
	p.status.URI = ""
	return p.setKey(key)
}

// checkSolvers checks that DNS-01 solvers are configured, and that their Secrets
// have what they need.
func (p *pass) checkSolvers(ctx context.Context) *issuing.Ready {
	problems := p.misconfigured()
	read := map[string]*corev1.Secret{}
	for _, ref := range account.SolverSecrets(p.issuer) {
		secret, ok := read[ref.Name]
		if !ok {
			secret = &corev1.Secret{}
			if err := p.Client.Get(ctx, p.secretNamed(ref.Name), secret); err != nil {
				if !apierrors.IsNotFound(err) {
					return retry(ReasonInvalidSolver, "failed to get secret %q: %v", ref.Name, err)
				}
				problems = append(problems, fmt.Sprintf("failed to get secret %q: %v", ref.Name, err))
				secret = nil
			}
			read[ref.Name] = secret
		}
		if secret == nil {
			continue
		}
		if _, ok := secret.Data[ref.Key]; !ok {
			problems = append(problems, fmt.Sprintf("the secret %q does not have key %q", ref.Name, ref.Key))
		}
	}
	if len(problems) > 0 {
		return wait(ReasonInvalidSolver, "%s", strings.Join(problems, "; "))
	}
	return nil
}

// misconfigured says which providers of certmanager.ProviderGroup cannot be used.
// The admission of a cluster may not have refused them: cert-manager's does not
// know them.
func (p *pass) misconfigured() []string {
	var problems []string
	for i, solver := range p.spec.Solvers {
		if solver.DNS01 == nil || !certmanager.InProviderGroup(solver.DNS01.Webhook) {
			continue
		}
		path := field.NewPath("spec", "acme", "solvers").Index(i).Child("dns01", "webhook")
		if _, errs := certmanager.ReadProvider(solver.DNS01.Webhook, path); len(errs) > 0 {
			problems = append(problems, errs.ToAggregate().Error())
		}
	}
	return problems
}

// secretNamed returns the address of a Secret that the issuer names.
func (p *pass) secretNamed(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: certmanager.SecretNamespace(p.issuer, p.ClusterResources), Name: name}
}
