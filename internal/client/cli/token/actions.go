package token

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/cli-runtime/pkg/printers"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	tokens "k8s.io/cluster-bootstrap/token/util"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"

	"github.com/certplane/certplane/internal/client/cli/exit"
)

// Secrets is a client for the Secrets of namespace kube-system.
type Secrets = corev1client.SecretInterface

// Create creates a token that is valid immediately.
func Create(ctx context.Context, secrets Secrets, options Options, now time.Time) (string, error) {
	token, err := tokens.GenerateBootstrapToken()
	if err != nil {
		return "", fmt.Errorf("creating a bootstrap token: %w", err)
	}
	if _, err := secrets.Create(ctx, options.secret(token, now), metav1.CreateOptions{}); err != nil {
		return "", exit.Advise("storing the bootstrap token", err)
	}
	return token, nil
}

// List prints the tokens, without their secret part.
func List(ctx context.Context, secrets Secrets, out io.Writer, now time.Time) error {
	found, err := list(ctx, secrets)
	if err != nil {
		return err
	}
	table := printers.GetNewTabWriter(out)
	fmt.Fprintln(table, "ID\tEXPIRES\tNODE\tGROUPS\tDESCRIPTION")
	for _, secret := range found {
		if r, ok := rowOf(secret, now); ok {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.id, r.expires, r.node, r.groups, r.description)
		}
	}
	return table.Flush()
}

func list(ctx context.Context, secrets Secrets) ([]corev1.Secret, error) {
	found, err := secrets.List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("type", string(bootstrapapi.SecretTypeBootstrapToken)).String(),
	})
	if err != nil {
		return nil, exit.Advise("listing bootstrap tokens", err)
	}
	return found.Items, nil
}

// ForNode returns a token with which only this node may join and that is valid for at
// least another minute; empty if none exists.
func ForNode(ctx context.Context, secrets Secrets, node string, now time.Time) (string, error) {
	found, err := list(ctx, secrets)
	for _, secret := range found {
		r, ok := rowOf(secret, now.Add(time.Minute))
		if ok && r.node == node && r.expires != expired {
			return r.id + "." + bootstrapsecrets.GetData(&secret, bootstrapapi.BootstrapTokenSecretKey), nil
		}
	}
	return "", err
}

// DeleteForNode deletes the tokens with which only this node may join.
func DeleteForNode(ctx context.Context, secrets Secrets, out io.Writer, node string) error {
	found, err := list(ctx, secrets)
	if err != nil {
		return err
	}
	for _, secret := range found {
		if r, ok := rowOf(secret, time.Time{}); ok && r.node == node {
			if err := Delete(ctx, secrets, out, r.id); err != nil {
				return err
			}
		}
	}
	return nil
}

// Delete deletes tokens, each given by its ID or in full.
func Delete(ctx context.Context, secrets Secrets, out io.Writer, names ...string) error {
	for _, name := range names {
		id, err := parseID(name)
		if err != nil {
			return err
		}
		err = secrets.Delete(ctx, tokens.BootstrapTokenSecretName(id), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("found no bootstrap token %s", id)
		}
		if err != nil {
			return exit.Advise("deleting bootstrap token "+id, err)
		}
		fmt.Fprintf(out, "bootstrap token %s deleted\n", id)
	}
	return nil
}

// parseID returns the ID of a token. Its errors do not quote the input, which
// may be a secret.
func parseID(name string) (string, error) {
	id, _, _ := strings.Cut(name, ".")
	if !tokens.IsValidBootstrapTokenID(id) {
		return "", fmt.Errorf("not the ID of a bootstrap token, nor a token: an ID is six lower case letters and digits, like those of 'token list'")
	}
	return id, nil
}
