/** The messages of the policy server's protocol: questions, answers, and what is around them. */
export * from "./server_pb.js";
export * from "./slots_pb.js";
