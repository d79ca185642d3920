package main

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// requester is the user that sends all load. It is not an administrator:
// servers check neither an administrator's rights nor how many of their
// requests are under way.
const requester = "bench-requester"

// newRequesterClient makes the requester with the rights that it needs, and
// gets it a client certificate in the way that is measured.
func newRequesterClient(ctx context.Context, admin *rest.Config) (*requesterClient, error) {
	if err := grant(ctx, admin); err != nil {
		return nil, fmt.Errorf("granting rights: %w", err)
	}
	spec, key, err := newSpecAndKey(requester)
	if err != nil {
		return nil, err
	}
	asAdmin, err := newClient(admin)
	if err != nil {
		return nil, err
	}
	asAdmin.spec = spec
	waiting, err := newWaiting(ctx, asAdmin)
	if err != nil {
		return nil, err
	}
	defer waiting.stop()
	certificate, err := waiting.obtain(ctx, asAdmin, requester)
	if err != nil {
		return nil, err
	}
	cfg := rest.AnonymousClientConfig(admin)
	cfg.CertData, cfg.KeyData = certificate, key
	return newClient(cfg)
}

func grant(ctx context.Context, admin *rest.Config) error {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	rule := func(verb, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{certificatesv1.GroupName}, Resources: []string{resource}}
	}
	name := metav1.ObjectMeta{Name: requester}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		rule("create", "certificatesigningrequests"),
		rule("list", "certificatesigningrequests"),
		rule("watch", "certificatesigningrequests"),
		rule("update", "certificatesigningrequests/approval"),
		rule("approve", "signers"),
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: requester},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: requester}},
	}, metav1.CreateOptions{})
	return err
}

// patience is how long a requester waits for one certificate before it counts
// as lost.
const patience = time.Minute

// obtain gets a certificate for the request of a name.
type obtain func(w *waiting, ctx context.Context, client *requesterClient, name string) ([]byte, error)

// obtain creates one request, approves it, and waits for its certificate.
func (w *waiting) obtain(ctx context.Context, client *requesterClient, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := w.open(); err != nil {
		return nil, err
	}
	issued := w.expect(name)
	if err := client.submit(ctx, name); err != nil {
		return nil, err
	}
	return w.await(ctx, issued)
}

// await returns the certificate that arrives on the watch.
func (w *waiting) await(ctx context.Context, issued <-chan []byte) ([]byte, error) {
	select {
	case certificate := <-issued:
		return certificate, nil
	case err := <-w.failed:
		w.failed <- err
		return nil, fmt.Errorf("watching: %w", err)
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the certificate: %w", ctx.Err())
	}
}
