// Package whocan lists the users, groups and service accounts that may do a task with
// requests for certificates.
package whocan

import (
	"context"
	"fmt"
	"io"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/target"
	"github.com/certplane/certplane/internal/policy/holders"
)

// Config selects the task and the output.
type Config struct {
	Target target.Target
	// Impersonators also lists users who can impersonate one of the holders.
	Impersonators bool
	// Output is json, yaml, or empty for text.
	Output string
	// Connect connects to the server.
	Connect func() (client.Client, error)
	// Command returns the command line of another verb for the same server.
	Command func(words ...string) string
	Stdout  io.Writer
}

// Report is the answer.
type Report struct {
	// Task describes the task as text.
	Task      string `json:"task"`
	Verb      string `json:"verb"`
	Kind      string `json:"kind"`
	Signer    string `json:"signer,omitempty"`
	Policy    string `json:"policy,omitempty"`
	Endpoint  string `json:"endpoint,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	holders.Answer
	// Actors can act as one of the holders.
	Actors []holders.Actor `json:"actors"`
	// Unread are objects that the caller may not read; without them the answer is
	// incomplete.
	Unread []string `json:"unread,omitempty"`
}

// Run lists the users who may do the task. It returns an error only if RBAC could not be
// read.
func Run(ctx context.Context, cfg Config) error {
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	objects, unread, err := cfg.read(ctx, c)
	if err != nil {
		return err
	}
	report := newReport(cfg.Target, objects)
	report.Unread = unread
	return print.Found(cfg.Stdout, cfg.Output, report, func() string { return cfg.text(report) })
}

func newReport(t target.Target, objects holders.Objects) Report {
	r := Report{
		Task: t.String(), Verb: t.Verb, Kind: t.Kind.Name, Signer: t.Signer, Policy: t.Policy, Endpoint: t.Endpoint, Namespace: t.Namespace,
		Answer: holders.Find(objects, question(t)),
	}
	var subjects []holders.Subject
	for _, holder := range r.Holders {
		subjects = append(subjects, holder.Subject)
	}
	r.Actors = holders.FindActors(objects, subjects)
	return r
}

// Holders returns the subjects that may do the task, by RBAC.
func Holders(objects holders.Objects, t target.Target) []holders.Holder {
	return holders.Find(objects, question(t)).Holders
}

// question returns the question for the rights of a task.
func question(t target.Target) holders.Question {
	act := t.Act
	if name := t.ObjectName(); name != "" {
		act.ResourceNames = []string{name}
	}
	q := holders.Question{Namespace: t.Namespace, Rights: []holders.Right{{AnyOf: []rbacv1.PolicyRule{act}, Namespaced: t.Kind.Namespaced}}}
	if reference, namespace := t.Reference(); len(reference.Verbs) > 0 {
		q.Namespace = namespace
		q.Rights = append(q.Rights, holders.Right{AnyOf: []rbacv1.PolicyRule{reference}, Namespaced: true})
	}
	if t.Signers != "" {
		for _, verb := range t.OnSigners().Verbs { // each of them is needed
			on := t.OnSigners(t.SignerNames()...)
			on.Verbs = []string{verb}
			q.Rights = append(q.Rights, holders.Right{AnyOf: []rbacv1.PolicyRule{on}, Mistaken: otherSigners(t.Signers)})
		}
	}
	if len(t.Read.Verbs) > 0 {
		get := t.Read
		get.Verbs = []string{"get"}
		q.Rights = append(q.Rights, holders.Right{AnyOf: []rbacv1.PolicyRule{get}, Namespaced: t.Kind.Namespaced, Optional: true})
	}
	return q
}

// otherSigners returns the other API groups with a resource named signers.
func otherSigners(group string) []string {
	var others []string
	for _, known := range []string{"certificates.k8s.io", "cert-manager.io", "certplane.dev"} {
		if known != group {
			others = append(others, known)
		}
	}
	return others
}

// read reads the relevant roles and bindings. unread lists those that the caller may not
// read, and without which an incomplete answer is possible.
func (cfg Config) read(ctx context.Context, c client.Client) (o holders.Objects, unread []string, err error) {
	where, needed := cfg.namespaces()
	o, forbidden, resource, err := Read(ctx, c, where)
	if err != nil {
		return o, nil, cfg.explain(resource, err)
	}
	for _, one := range forbidden {
		if needed || strings.HasPrefix(one.resource, "cluster") {
			return o, nil, cfg.explain(one.resource, one.error)
		}
		unread = append(unread, one.resource)
	}
	return o, unread, nil
}

// Forbidden is a resource that may not be listed.
type Forbidden struct {
	resource string
	error
}

// Unwrap returns the error of the API.
func (f Forbidden) Unwrap() error { return f.error }

// Read reads the roles and bindings of RBAC, from one namespace or from all if namespace
// is empty. resource is the resource that could not be read for a reason other than
// missing rights.
func Read(ctx context.Context, c client.Reader, namespace string) (o holders.Objects, forbidden []Forbidden, resource string, err error) {
	var clusterRoles rbacv1.ClusterRoleList
	var clusterBindings rbacv1.ClusterRoleBindingList
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	for _, list := range []struct {
		resource string
		into     client.ObjectList
		options  []client.ListOption
	}{
		{"clusterroles", &clusterRoles, nil},
		{"clusterrolebindings", &clusterBindings, nil},
		{"rolebindings", &bindings, []client.ListOption{client.InNamespace(namespace)}},
		{"roles", &roles, []client.ListOption{client.InNamespace(namespace)}},
	} {
		err := c.List(ctx, list.into, list.options...)
		switch {
		case apierrors.IsForbidden(err):
			forbidden = append(forbidden, Forbidden{list.resource, err})
		case err != nil:
			return o, nil, list.resource, err
		}
	}
	return holders.Objects{
		ClusterRoles: clusterRoles.Items, ClusterRoleBindings: clusterBindings.Items, Roles: roles.Items, RoleBindings: bindings.Items,
	}, forbidden, "", nil
}

// namespaces returns the namespace of the relevant roles and bindings, empty for all
// namespaces, and whether an answer requires them.
func (cfg Config) namespaces() (where string, needed bool) {
	if _, namespace := cfg.Target.Reference(); cfg.Target.NeedsReference() {
		return namespace, true
	}
	return cfg.Target.Namespace, cfg.Target.Kind.Namespaced
}

// explain returns an error with the next step.
func (cfg Config) explain(resource string, err error) error {
	if !apierrors.IsForbidden(err) {
		return exit.Advise("reading "+resource, err)
	}
	list := "clusterroles and clusterrolebindings"
	if where, needed := cfg.namespaces(); needed {
		list += ", and on roles and rolebindings"
		if where != "" {
			list += " in the namespace " + where
		}
	}
	return exit.WithNext(fmt.Errorf("you may not read %s, which the answer depends on: %w", resource, err),
		fmt.Sprintf("It requires list on %s (%s).", list, rbacv1.GroupName),
		"To list your own rights:", "  "+cfg.Command("kubectl", "auth", "can-i", "--list"))
}
