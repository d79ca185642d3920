package server

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/authz"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/worker"
)

// readyPoll is how often a starting server checks whether it is ready.
const readyPoll = 20 * time.Millisecond

// decider decides whether a request would be allowed.
type decider func(ctx context.Context, request authorizer.Attributes) authz.Verdict

// waitReady waits, as long as it takes, until the API is ready, but for the certificate policies, which
// are read through it, and its authorizer has loaded the bootstrap roles of the
// account with which all controllers read: a controller that starts before that
// is refused and backs off. If an authorizer denies what that account needs,
// waitReady returns an error that names both; if none allows it, the log says so.
func waitReady(ctx context.Context, asServer *rest.Config, reader user.Info, decide decider) error {
	client, err := kubernetes.NewForConfig(asServer)
	if err != nil {
		return fmt.Errorf("making the readiness client: %w", err)
	}
	watch := authorizer.AttributesRecord{
		User: reader, Verb: "watch", ResourceRequest: true,
		APIGroup: certificatesv1.GroupName, APIVersion: "v1", Resource: "certificatesigningrequests",
	}
	said := worker.Waiting{What: "the API to be ready"}
	for {
		err := isReady(ctx, client)
		if err == nil {
			verdict := decide(ctx, watch)
			switch {
			case verdict.Decision == authorizer.DecisionAllow:
				return nil
			case verdict.Decision == authorizer.DecisionDeny && verdict.Err == nil:
				return unfit(reader, verdict)
			}
			err = unfit(reader, verdict)
		}
		said.Say(ctx, err, readyPoll)
		if !worker.Sleep(ctx, readyPoll) {
			return ctx.Err()
		}
	}
}

// isReady requests readiness as any client would, and returns what is missing. What the
// controllers bring about is left out. Errors mean "not yet".
func isReady(ctx context.Context, client kubernetes.Interface) error {
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").
		Param("exclude", apiserver.PoliciesCheck).Param("exclude", apiserver.KindsCheck).Do(ctx).Error()
}

// unfit returns an error that says what the authorization configuration must
// let the server's own accounts do, and how.
func unfit(account user.Info, verdict authz.Verdict) error {
	const group = "system:serviceaccounts:" + rights.ServeNamespace
	needs := fmt.Sprintf("the server's own account %s, with which its controllers watch certificatesigningrequests.%s", account.GetName(), certificatesv1.GroupName)
	because := ""
	if verdict.Reason != "" {
		because = " (" + verdict.Reason + ")"
	}
	switch {
	case verdict.Err != nil && verdict.By != "":
		return fmt.Errorf("authorization: %s cannot be asked about %s: %w", verdict.By, needs, verdict.Err)
	case verdict.Decision == authorizer.DecisionDeny:
		return fmt.Errorf("authorization: %s denies %s%s. Have it allow the group %s, or have it not be asked: "+
			"put RBAC before it, or give it the match condition \"!('%s' in request.groups)\"", verdict.By, needs, because, group, group)
	default:
		if verdict.Err != nil {
			because += ": " + verdict.Err.Error()
		}
		return fmt.Errorf("authorization: no authorizer allows %s%s. Add the authorizer RBAC to authorization.configFile, or have a webhook allow the group %s", needs, because, group)
	}
}
