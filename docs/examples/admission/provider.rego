# METADATA
# title: where-it-runs
# description: Personal data stays in the EU; what is public goes where it is cheap.
# custom:
#   policy_type: Global
#   priority: 300
#   test_cases:
#   - name: personal data goes to the EU
#     request: {request_payload: {service_type: vm, metadata: {labels: {data: personal}}}}
#     expect: {status: approved, service_provider: eu-central}
#   - name: anything else goes where it is cheap
#     request: {request_payload: {service_type: vm}}
#     expect: {status: approved, service_provider: us-spot}
package dcm.policy.where_it_runs

default personal := false

personal if input.current_request_payload.metadata.labels.data == "personal"

result := {"service_provider": {
	"value": "eu-central",
	"constraints": {"patterns": ["^eu-"]},
}} if personal

result := {"service_provider": {"value": "us-spot"}} if not personal
