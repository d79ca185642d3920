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
	"github.com/certplane/certplane/internal/apiserver/authz"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/rights"
)

// readyPoll is how often a starting server checks whether it is ready.
const readyPoll = 20 * time.Millisecond

// decider decides whether a request would be allowed.
type decider func(ctx context.Context, request authorizer.Attributes) authz.Verdict

// waitReady waits, without a limit, until the API is ready and its authorizer has loaded the
// bootstrap roles of the account that all controllers read with. A controller that starts
// earlier is refused and backs off. Certificate policies are excluded, because they are read
// through the API. If an authorizer denies what that account needs, waitReady returns an
// error that names both; if no authorizer allows it, waitReady logs that.
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

// isReady requests readiness like any client and returns what is missing, except for the
// checks that the controllers themselves fulfil. Errors mean "not yet".
func isReady(ctx context.Context, client kubernetes.Interface) error {
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").
		Param("exclude", apiserver.PoliciesCheck).Param("exclude", apiserver.KindsCheck).Do(ctx).Error()
}

// unfit returns an error that explains which rights of the server's own accounts are missing
// in the authorization configuration, and how to add them.
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
