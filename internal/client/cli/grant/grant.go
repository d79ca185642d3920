// Package grant grants and removes the RBAC rights that a task with certificates needs.
package grant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/target"
)

// DryRun selects what happens instead of writing.
type DryRun string

// The dry runs.
const (
	DryRunNone   DryRun = "none"
	DryRunClient DryRun = "client" // reads, and reports the changes
	DryRunServer DryRun = "server" // the server checks the changes
)

// Config selects the rights to grant, and the subjects.
type Config struct {
	Targets  []target.Target
	Subjects []rbacv1.Subject
	// Remove removes the rights.
	Remove bool
	DryRun DryRun
	// Output is json or yaml, to print the objects and to write nothing.
	Output string
	// Connect connects to the server.
	Connect func() (client.Client, error)
	// Command returns the command line of another verb for the same server.
	Command func(words ...string) string
	// Again is the command line of this grant for another user.
	Again string
	// Results are written to Stdout, remarks to Stderr.
	Stdout, Stderr io.Writer
}

// Run grants the rights, or removes them. An object that was written before an error
// stays written: repeating the call completes the grant.
func Run(ctx context.Context, cfg Config) error {
	c, err := Write(ctx, cfg, allObjects(cfg.Targets, cfg.Subjects))
	if err != nil {
		return err
	}
	if c == nil {
		cfg.remark(remarks(cfg.Targets, cfg.Subjects))
		return nil
	}
	cfg.summarise()
	if cfg.Remove {
		cfg.remark(removalRemarks(cfg.Targets))
	} else {
		cfg.remark(append(remarks(cfg.Targets, cfg.Subjects), missing(ctx, c, cfg.Targets, cfg.Subjects)...))
	}
	return nil
}

// Write writes roles and bindings, or removes them, and reports each; with an output
// format it prints them. Each role precedes its binding. It returns the client that it
// used, or nil if the objects were printed.
func Write(ctx context.Context, cfg Config, objects []client.Object) (client.Client, error) {
	if cfg.Output != "" {
		return nil, printObjects(cfg.Stdout, cfg.Output, objects)
	}
	c, err := cfg.Connect()
	if err != nil {
		return nil, err
	}
	w := writer{cfg, dry(c, cfg.DryRun), objects}
	for i := 0; i < len(objects) && err == nil; i += 2 {
		if role, binding := objects[i], objects[i+1]; cfg.Remove {
			err = w.remove(ctx, role, binding)
		} else {
			err = w.add(ctx, role, binding)
		}
	}
	return c, err
}

// dry returns a client for the dry run.
func dry(c client.Client, run DryRun) client.Client {
	switch run {
	case DryRunClient:
		return reader{c}
	case DryRunServer:
		return client.NewDryRunClient(c)
	default:
		return c
	}
}

// reader is a client that writes nothing.
type reader struct{ client.Client }

func (reader) Create(context.Context, client.Object, ...client.CreateOption) error { return nil }
func (reader) Update(context.Context, client.Object, ...client.UpdateOption) error { return nil }
func (reader) Delete(context.Context, client.Object, ...client.DeleteOption) error { return nil }

// writer writes objects and reports each.
type writer struct {
	Config
	client  client.Client
	objects []client.Object
}

// required names the rights that writing the objects requires.
func (w writer) required() string {
	verbs := "get, create and update"
	if w.Remove {
		verbs = "get, update, delete and list"
	}
	var resources []string
	for _, object := range w.objects {
		text := resourceOf(object)
		if namespace := object.GetNamespace(); namespace != "" {
			text += " in the namespace " + namespace
		}
		if !slices.Contains(resources, text) {
			resources = append(resources, text)
		}
	}
	return fmt.Sprintf("It requires %s on %s (%s).", verbs, strings.Join(resources, ", "), rbacv1.GroupName)
}

func resourceOf(object client.Object) string {
	return strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind) + "s"
}

// add writes a role and its binding.
func (w writer) add(ctx context.Context, role, binding client.Object) error {
	madeRole, err := put(ctx, w.client, role)
	if err != nil {
		return w.explain("writing", role, err)
	}
	w.report(role, madeRole)
	result, err := put(ctx, w.client, binding)
	if lacksRole(err) && madeRole == created && w.DryRun == DryRunServer {
		result, err = unchecked, nil
	}
	if err != nil {
		return w.explain("writing", binding, err)
	}
	w.report(binding, result)
	return nil
}

// remove removes the subjects from a binding. With the last subject it deletes the role.
func (w writer) remove(ctx context.Context, role, binding client.Object) error {
	result, err := unbind(ctx, w.client, binding)
	if err != nil {
		return w.explain("changing", binding, err)
	}
	w.report(binding, result)
	if result != deleted && result != absent {
		return nil
	}
	result, err = drop(ctx, w.client, role)
	if err != nil {
		return w.explain("deleting", role, err)
	}
	w.report(role, result)
	return nil
}

func (w writer) report(object client.Object, what change) {
	suffix := ""
	if w.DryRun != DryRunNone {
		suffix = fmt.Sprintf(" (%s dry run)", w.DryRun)
	}
	fmt.Fprintf(w.Stdout, "%s %s%s\n", describe(object), what, suffix)
}

// heldOnly is part of Kubernetes' error for granting a right that the caller does not
// hold.
const heldOnly = "attempting to grant RBAC permissions not currently held"

// explain returns an error with the next step.
func (w writer) explain(doing string, object client.Object, err error) error {
	what := doing + " " + describe(object)
	var other *otherRoleError
	switch {
	case errors.As(err, &other):
		words := []string{"kubectl", "delete", strings.TrimSuffix(resourceOf(object), "s"), object.GetName()}
		if object.GetNamespace() != "" {
			words = append(words, "-n", object.GetNamespace())
		}
		return exit.WithNext(fmt.Errorf("%s: %w", what, err), "Delete it first, if it is not needed:", "  "+w.Command(words...))
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), heldOnly):
		return exit.WithNext(fmt.Errorf("%s: %w", what, err),
			"Users can grant only rights that they hold, unless they have the verbs escalate on roles and clusterroles, and bind.",
			"A user who holds them, or is in the group system:masters, grants them with:", "  "+w.Again)
	case apierrors.IsForbidden(err):
		return exit.WithNext(fmt.Errorf("%s: %w", what, err), w.required(), "A user with these rights runs:", "  "+w.Again)
	case apierrors.IsNotFound(err) && object.GetNamespace() != "":
		return exit.WithNext(fmt.Errorf("%s: %w", what, err), "To create the namespace:", "  "+w.Command("kubectl", "create", "namespace", object.GetNamespace()))
	default:
		return exit.Advise(what, err)
	}
}
