// Command goclient uses the clients that oapi-codegen makes of /openapi.json. It lists
// policies, writes one, reads it back, and is refused another of its name; and it asks
// how the plane is doing, for admission policies, and for a node that is unknown.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/google/uuid"

	"goclient/admission"
	"goclient/authors"
	"goclient/nodes"
	"goclient/operators"
)

func main() {
	ctx, plane := context.Background(), os.Args[1]
	if err := write(ctx, plane); err != nil {
		log.Fatal(err)
	}
	if err := ask(ctx, plane); err != nil {
		log.Fatal(err)
	}
}

func write(ctx context.Context, plane string) error {
	c, err := authors.NewClientWithResponses(plane)
	if err != nil {
		return err
	}
	project := uuid.MustParse("00000000-0000-4000-8000-000000000000")
	before, err := c.ListPoliciesWithResponse(ctx, project, nil)
	if err != nil || before.JSON200 == nil {
		return fmt.Errorf("list: %v %s", err, before.Status())
	}
	any4, port := "0.0.0.0/0", 443
	name := "Of a generated client"
	draft := authors.Draft{
		Slug: "generated-go", DisplayName: &name, Selector: authors.Selector{Source: "role=web", Destination: "role=db"},
		Rules: []authors.Rule{{
			Action: "allow", Protocol: "tcp", SourceCidr: &any4, DestinationCidr: &any4, Ports: &authors.Ports{From: port, To: port},
		}},
	}
	made, err := c.CreatePolicyWithResponse(ctx, project, nil, draft)
	if err != nil || made.JSON201 == nil {
		return fmt.Errorf("create: %v %s", err, made.Body)
	}
	read, err := c.GetPolicyWithResponse(ctx, project, made.JSON201.Id, nil)
	if err != nil || read.JSON200 == nil {
		return fmt.Errorf("get: %v %s", err, read.Body)
	}
	again, err := c.CreatePolicyWithResponse(ctx, project, nil, draft)
	if err != nil || again.ApplicationproblemJSON4XX == nil {
		return fmt.Errorf("create again: %v %s", err, again.Body)
	}
	_, err = fmt.Printf("%d before, %s written and read, again: %s\n", len(before.JSON200.Items), read.JSON200.Slug, again.ApplicationproblemJSON4XX.Code)
	return err
}

func ask(ctx context.Context, plane string) error {
	o, err := operators.NewClientWithResponses(plane)
	if err != nil {
		return err
	}
	status, err := o.GetStatusWithResponse(ctx, nil)
	if err != nil || status.JSON200 == nil {
		return fmt.Errorf("status: %v %s", err, status.Body)
	}
	a, err := admission.NewClientWithResponses(plane)
	if err != nil {
		return err
	}
	judges, err := a.ListAdmissionPoliciesWithResponse(ctx, nil)
	if err != nil || judges.JSON200 == nil {
		return fmt.Errorf("admission policies: %v %s", err, judges.Body)
	}
	n, err := nodes.NewClientWithResponses(plane)
	if err != nil {
		return err
	}
	unknown, err := n.GetNodeStateWithResponse(ctx, "web-1", nil)
	if err != nil || unknown.ApplicationproblemJSON4XX == nil {
		return fmt.Errorf("state: %v %s", err, unknown.Body)
	}
	_, err = fmt.Printf("%d policies, %d admission policies, node web-1: %s\n", status.JSON200.Policies, len(judges.JSON200.Items), unknown.ApplicationproblemJSON4XX.Code)
	return err
}
