package explain

import (
	"context"
	"fmt"

	"github.com/certplane/certplane/internal/policy/issuance/secret"
)

// passwordFacts are the facts about the password of a keystore, which is in a
// Secret. The content of the Secret is not read.
type passwordFacts struct {
	secret.PasswordRef
	exists Result
}

// findPasswords looks for the Secrets with the passwords of the keystores.
func (f *CertificateFacts) findPasswords(ctx context.Context, api Reader) error {
	jks, pkcs12 := secret.PasswordRefs(&f.Certificate.Spec)
	for _, ref := range []*secret.PasswordRef{jks, pkcs12} {
		if ref == nil || ref.Secret == "" || jks != nil && ref == pkcs12 && *jks == *pkcs12 {
			continue
		}
		_, found, err := findSecret(ctx, api, f.Certificate.Namespace, ref.Secret, false)
		if err != nil {
			return err
		}
		f.passwords = append(f.passwords, passwordFacts{*ref, found})
	}
	return nil
}

func (f *CertificateFacts) checkPasswords() []Check {
	var checks []Check
	for _, p := range f.passwords {
		message := fmt.Sprintf("should be in Secret %s, which exists, under the key %s", p.Secret, p.Key)
		switch p.exists {
		case No:
			message = fmt.Sprintf("there is no Secret %s, where the password of a keystore should be under the key %s", p.Secret, p.Key)
		case Unknown:
			message = "you may not get secrets in the namespace " + f.Certificate.Namespace
		}
		checks = append(checks, Check{"password", p.exists, message})
	}
	return checks
}

// passwordSteps returns the steps that create the passwords of the keystores.
func (f *CertificateFacts) passwordSteps() []Step {
	var steps []Step
	for _, p := range f.passwords {
		switch {
		case p.exists == No:
			steps = append(steps, step(fmt.Sprintf("Create the Secret with the keystore's password under the key %s; the certificate is then written by itself:", p.Key),
				f.kubectl("create", "secret", "generic", "-n", f.Certificate.Namespace, p.Secret, "--from-file="+p.Key+"=FILE")))
		case f.isAnswered():
			steps = append(steps, step(fmt.Sprintf("The keystore's password belongs into Secret %s under the key %s. To see which keys it has, without what they hold:", p.Secret, p.Key),
				f.kubectl("describe", "secret", "-n", f.Certificate.Namespace, p.Secret)))
		}
	}
	return steps
}
